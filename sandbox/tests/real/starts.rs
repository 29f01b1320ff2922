//! Boxes that do not start, and what they say.

use crate::bench::{Bench, helper, plainly, soon};
use sandbox::{Expose, Host, Launcher, Sandbox, StartError, Step};
use std::os::unix::fs::symlink;

#[tokio::test]
async fn a_symlink_at_a_mount_point_is_refused() {
    let bench = Bench::new().await;
    let tool = bench.root.join("user/.tool/bin");
    let policy = bench.policy().expose(Expose::read_only(bench.root.join("shared")).at(&tool));
    let baseline = bench.sh(&policy, &format!("cat {}/file", tool.display())).await;
    assert_eq!(baseline.out, "shared");
    // What an agent may leave behind in its home: once as a part of the path, once as its end.
    let home = bench.root.join("home");
    std::fs::remove_dir_all(home.join(".tool")).unwrap();
    for (link, named) in [(".tool", "user/.tool"), (".tool/bin", "user/.tool/bin")] {
        if link == ".tool/bin" {
            std::fs::remove_file(home.join(".tool")).unwrap();
            std::fs::create_dir(home.join(".tool")).unwrap();
        }
        symlink(&bench.root, home.join(link)).unwrap();
        let error = soon(Sandbox::start(&bench.plan(&policy), &bench.launcher)).await.unwrap_err();
        assert!(matches!(&error, StartError::Symlink { path, .. } if *path == bench.root.join(named)), "{error:?}");
        assert!(error.to_string().contains("is a symlink"), "{error}");
    }
}

#[tokio::test]
async fn a_symlink_on_the_way_to_a_source_is_refused() {
    let bench = Bench::new().await;
    let way = bench.root.join("way");
    std::fs::create_dir(&way).unwrap();
    std::fs::create_dir(way.join("inner")).unwrap();
    let policy = bench.policy().expose(Expose::read_only(way.join("inner")).at("/run/shown"));
    assert!(bench.sh(&policy, "ls /run/shown").await.ok());
    // Who may write in a folder of the way puts a link there between the check and the mount.
    for (link, to) in [("way", "user"), ("way/inner", "../user")] {
        let at = bench.root.join(link);
        std::fs::rename(&at, bench.root.join("aside")).unwrap();
        std::fs::create_dir_all(bench.root.join("user/inner")).unwrap();
        symlink(to, &at).unwrap();
        let error = soon(Sandbox::start(&bench.plan(&policy), &bench.launcher)).await.unwrap_err();
        assert!(matches!(&error, StartError::Symlink { path, .. } if *path == at), "{link}: {error:?}");
        std::fs::remove_file(&at).unwrap();
        std::fs::rename(bench.root.join("aside"), &at).unwrap();
    }
}

#[tokio::test]
async fn a_missing_source_is_named() {
    let bench = Bench::new().await;
    let missing = bench.root.join("none");
    let policy = bench.policy().expose(Expose::read_only(&missing));
    let error = soon(Sandbox::start(&bench.plan(&policy), &bench.launcher)).await.unwrap_err();
    let StartError::Step { step: Step::Clone { .. }, path, source } = &error else { panic!("{error:?}") };
    assert_eq!((path.as_ref(), source.kind()), (Some(&missing), std::io::ErrorKind::NotFound));
}

#[tokio::test]
async fn a_place_that_cannot_be_made_is_named() {
    let bench = Bench::new().await;
    let policy = bench.policy().expose(Expose::read_only(bench.root.join("shared")).at("/usr/sandbox-none/x"));
    let error = soon(Sandbox::start(&bench.plan(&policy), &bench.launcher)).await.unwrap_err();
    let StartError::Step { step: Step::Bind { .. }, path, source } = &error else { panic!("{error:?}") };
    assert_eq!(path.as_deref(), Some(std::path::Path::new("/usr/sandbox-none")));
    assert_eq!(source.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
}

#[tokio::test]
async fn a_program_that_is_no_init_is_no_sandbox() {
    let bench = Bench::new().await;
    let plan = bench.plan(&bench.policy());
    let error = soon(Sandbox::start(&plan, &Launcher::new("/bin/true"))).await.unwrap_err();
    assert!(matches!(error, StartError::Died { .. }), "{error:?}");
    let error = soon(Sandbox::start(&plan, &Launcher::new("/none"))).await.unwrap_err();
    assert!(matches!(error, StartError::Launch { .. }), "{error:?}");
}

#[tokio::test]
async fn a_machine_without_user_namespaces_is_recognised() {
    let output = tokio::process::Command::new(helper()).arg("without-namespaces").output();
    let output = soon(output).await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Some(NamespacesOff)"), "{text}");
    let host = soon(Host::probe(&Launcher::new(helper()))).await;
    assert_eq!(host.obstacle, None, "and this machine is not one");
}

#[tokio::test]
async fn what_a_machine_lacks_is_found_by_trying() {
    let found = |name| plainly(&["probe-without", name]).replace("ok ", "").trim().to_owned();
    let has = soon(Host::probe(&Launcher::new(helper()))).await.landlock.is_some();
    assert_eq!(found("landlock"), "None landlock false seccomp true");
    assert_eq!(found("landlock-half"), "None landlock false seccomp true", "offered, and not to be had");
    assert_eq!(found("seccomp"), format!("None landlock {has} seccomp false"));
}
