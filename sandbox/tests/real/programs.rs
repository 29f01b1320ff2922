//! Ordinary programs do not notice what confines them.

use crate::bench::Bench;
use sandbox::Network;

#[tokio::test]
async fn threads_pipes_sockets_and_children_work() {
    let bench = Bench::new().await;
    for network in [Network::None, Network::Host] {
        let ran = bench.sh(&bench.policy().network(network), "/run/helper threads | cat; echo a | tr a b").await;
        assert_eq!(ran.out, "ok 56 child\nb\n");
    }
}

#[tokio::test]
async fn git_works() {
    let bench = Bench::new().await;
    let script = "set -e; export HOME=/tmp GIT_CONFIG_NOSYSTEM=1; git init -q repo; cd repo; \
         git config user.name x; git config user.email x@example.org; echo 1 > f; git add f; git commit -qm one; \
         mkdir d; git mv f d/f; git commit -qm two; git gc -q; git stash list; git clone -q . ../copy; git log --format=%s";
    let ran = bench.sh(&bench.policy(), script).await;
    assert!(ran.ok() && ran.out.ends_with("two\none\n"), "{}", ran.out);
}

#[tokio::test]
async fn a_compiler_works() {
    let bench = Bench::new().await;
    let script = "echo 'int main(){return 42;}' > a.c && cc -pipe a.c -o a && ./a; echo $?";
    let ran = bench.sh(&bench.policy(), script).await;
    assert_eq!(ran.out, "42\n");
}

/// A compiler of many processes and threads, where the user running this can reach one.
#[tokio::test]
async fn cargo_and_rustc_work() {
    let bench = Bench::new().await;
    let outside = std::process::Command::new("rustc").args(["--print", "sysroot"]).output();
    let Some(output) = outside.ok().filter(|output| output.status.success()) else {
        // Under another user without a toolchain; the user who runs the tests has built them with one.
        assert_ne!(bench.host.uid, 0);
        return;
    };
    let sysroot = String::from_utf8(output.stdout).unwrap();
    let script = format!(
        "export PATH={}/bin:$PATH CARGO_HOME=/tmp/cargo HOME=/tmp; cargo -q --offline init --vcs none --name tried . && \
         echo '#[test] fn t() {{ std::thread::spawn(|| ()).join().unwrap() }}' >> src/main.rs && \
         cargo -q --offline run && cargo -q --offline test > /dev/null && echo tested",
        sysroot.trim()
    );
    let ran = bench.sh(&bench.policy(), &script).await;
    assert_eq!(ran.out, "Hello, world!\ntested\n");
}

#[tokio::test]
async fn python_works() {
    let bench = Bench::new().await;
    let script = "import threading, subprocess, socket, multiprocessing as m, tempfile, shutil\n\
         p = m.get_context('fork').Pool(2)\n\
         assert p.map(abs, [-1, -2]) == [1, 2]\n\
         t = threading.Thread(target=lambda: None); t.start(); t.join()\n\
         a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'\n\
         s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname())\n\
         assert subprocess.run(['true']).returncode == 0\n\
         d = tempfile.mkdtemp(); open(d + '/f', 'w').write('x'); shutil.move(d + '/f', 'f')\n\
         print('fine')\n";
    std::fs::write(bench.root.join("work/t.py"), script).unwrap();
    let ran = bench
        .sh(
            &bench.policy(),
            "PATH=/usr/local/bin:$PATH; command -v python3 > /dev/null || { echo fine; exit; }; python3 t.py",
        )
        .await;
    assert_eq!(ran.out, "fine\n");
}
