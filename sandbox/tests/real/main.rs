//! Boxes on the real kernel.

use sandbox::{Command, Enforcement, Host, Launcher, Policy, PrivateDir, Sandbox, Status};

#[tokio::test]
async fn a_command_runs_and_ends() {
    let launcher = Launcher::new(env!("CARGO_BIN_EXE_sandbox-test-box"));
    let host = Host::probe(&launcher).await;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for name in ["work", "home", "tmp"] {
        std::fs::create_dir(root.join(name)).unwrap();
    }
    let home = PrivateDir { source: root.join("home"), target: root.join("user") };
    let policy = Policy::new(root.join("work"), home, root.join("tmp"));
    let plan = Enforcement::plan(&policy, &host).unwrap();
    let sandbox = Sandbox::start(&plan, &launcher).await.unwrap();
    let mut child = sandbox.spawn(Command::new(["/bin/sh", "-c", "exit 3"])).await.unwrap();
    assert_eq!(child.wait().await.unwrap().status, Status::Exited(3));
    sandbox.shutdown().await.unwrap();
}
