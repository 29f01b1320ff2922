//! What a box can read and write.

use crate::bench::{Bench, run, shell};
use sandbox::{Access, Expose};

#[tokio::test]
async fn home_and_tmp_are_private() {
    let bench = Bench::new().await;
    let user = bench.root.join("user");
    std::fs::write(user.join("key"), "secret").unwrap();
    let script = format!("cat {0}/key; echo new > {0}/made; echo new > /tmp/made; ls -A {0}", user.display());
    let shown = bench.policy().expose(Expose::read_only(&bench.root).at("/run/all"));
    let baseline = bench.sh(&shown, "cat /run/all/user/key").await;
    assert_eq!(baseline.out, "secret", "the file is there to be read");
    let ran = bench.sh(&bench.policy(), &script).await;
    assert!(!ran.out.contains("secret") && ran.out.contains("made"), "{}", ran.out);
    assert!(bench.root.join("home/made").exists() && bench.root.join("tmp/made").exists());
    assert!(!user.join("made").exists());
}

#[tokio::test]
async fn hidden_directories_are_empty_and_sealed() {
    let bench = Bench::new().await;
    let sibling = bench.root.join("sibling");
    let shown = bench.policy().expose(Expose::read_only(&bench.root));
    let script = format!("cat {0}/secret; ls -A {0}; echo x > {0}/new", sibling.display());
    let baseline = bench.sh(&shown, &script).await;
    assert!(baseline.out.contains("secretsecret"), "visible without being hidden: {}", baseline.out);
    let ran = bench.sh(&shown.hide(&sibling), &script).await;
    assert!(!ran.out.contains("secretsecret"), "{}", ran.out);
    assert!(ran.out.contains("No such file") && ran.out.contains("Read-only file system"), "{}", ran.out);
    assert!(!sibling.join("new").exists());
}

#[tokio::test]
async fn what_is_exposed_below_a_hidden_directory_is_there() {
    let bench = Bench::new().await;
    let extra = bench.root.join("extra");
    std::fs::write(&extra, "one file\n").unwrap();
    let policy = bench
        .policy()
        .expose(Expose::read_only(&bench.root))
        .hide(bench.root.join("sibling"))
        .expose(Expose::read_write(bench.root.join("shared")).at(bench.root.join("sibling/deep/shared")))
        .expose(Expose::read_only(&extra).at(bench.root.join("sibling/one-file")));
    let script = format!(
        "cd {}/sibling && find . | sort | tr '\\n' ' '; echo changed > deep/shared/file; touch no; cat one-file",
        bench.root.display()
    );
    let ran = bench.sh(&policy, &script).await;
    assert!(ran.out.contains(". ./deep ./deep/shared ./deep/shared/file ./one-file"), "{}", ran.out);
    assert!(ran.out.contains("one file") && ran.out.contains("Read-only"), "{}", ran.out);
    assert_eq!(std::fs::read_to_string(bench.root.join("shared/file")).unwrap(), "changed\n");
}

#[tokio::test]
async fn read_only_means_contents_and_metadata() {
    let bench = Bench::new().await;
    let shared = bench.root.join("shared");
    let script = format!(
        "cd {} && (echo x > new; chmod 700 file; touch -d 2001-01-01 file; mv file other; ln file {}/linked); true",
        shared.display(),
        bench.root.join("work").display()
    );
    let before = std::fs::metadata(shared.join("file")).unwrap();
    let ran = bench.sh(&bench.policy().expose(Expose::read_only(&shared)), &script).await;
    assert_eq!(ran.out.matches("Read-only file system").count(), 4, "{}", ran.out);
    assert!(ran.out.contains("cross-device"), "{}", ran.out);
    let after = std::fs::metadata(shared.join("file")).unwrap();
    assert_eq!((before.permissions(), before.modified().unwrap()), (after.permissions(), after.modified().unwrap()));
    // The same script, where it may.
    bench.sh(&bench.policy().expose(Expose::read_write(&shared)), &script).await;
    assert!(shared.join("new").exists() && shared.join("other").exists());
}

#[tokio::test]
async fn the_rest_of_the_host_is_read_only() {
    let bench = Bench::new().await;
    let script =
        "for d in / /etc /usr /usr/bin /dev /sys; do touch $d/.sandbox-test; chmod 755 $d; done; touch /proc/x; true";
    let ran = bench.sh(&bench.policy(), script).await;
    let refused = ran.out.lines().filter(|line| {
        line.contains("Read-only")
            || line.contains("not permitted")
            || line.contains("No such")
            || line.contains("denied")
    });
    assert_eq!(refused.count(), 13, "{}", ran.out);
    for dir in ["/", "/etc", "/usr", "/usr/bin", "/dev"] {
        assert!(!std::path::Path::new(dir).join(".sandbox-test").exists());
    }
}

#[tokio::test]
async fn a_pinned_file_stays() {
    let bench = Bench::new().await;
    let git = bench.root.join("work/.git");
    let script = format!(
        "echo x > .git; rm -f .git; mv .git away; chmod 777 .git; cd /; mv {0} {0}-away; rm -rf {0}; cat {0}/.git",
        bench.root.join("work").display()
    );
    let ran = bench.sh(&bench.policy().pin(&git), &script).await;
    assert!(ran.out.ends_with("gitdir: elsewhere\n"), "{}", ran.out);
    assert!(ran.out.contains("busy") && ran.out.contains("Read-only"), "{}", ran.out);
    assert_eq!(std::fs::read_to_string(&git).unwrap(), "gitdir: elsewhere\n");
    // Without the pin the first of them is enough.
    bench.sh(&bench.policy(), &script).await;
    assert!(!git.exists());
}

#[tokio::test]
async fn a_masked_file_is_empty_and_a_missing_one_no_error() {
    let bench = Bench::new().await;
    let file = bench.root.join("shared/file");
    let shown = bench.policy().expose(Expose::read_write(bench.root.join("shared")));
    let script = format!("cat {0}; echo x > {0}; rm -f {0}", file.display());
    let policy = shown.clone().mask(&file).mask(bench.root.join("shared/none"));
    let ran = bench.sh(&policy, &script).await;
    assert!(!ran.out.contains("shared\n") && ran.out.contains("Read-only") && ran.out.contains("busy"), "{}", ran.out);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "shared");
    let baseline = bench.sh(&shown, &script).await;
    assert!(baseline.out.starts_with("shared") && !file.exists());
}

#[tokio::test]
async fn a_box_for_looking_cannot_write() {
    let bench = Bench::new().await;
    let ran = bench.sh(&bench.policy().workdir_access(Access::ReadOnly), "cat .git; touch new").await;
    assert!(ran.out.contains("elsewhere") && ran.out.contains("Read-only"), "{}", ran.out);
    assert!(bench.sh(&bench.policy(), "touch new").await.ok());
}

#[tokio::test]
async fn devices_work_and_cannot_be_changed() {
    let bench = Bench::new().await;
    let use_them = "echo x > /dev/null && head -c 3 /dev/zero | wc -c && head -c 3 /dev/urandom | wc -c && \
         echo x > /dev/shm/f && cat /dev/shm/f && echo x | cat /dev/stdin && ! echo x > /dev/full";
    let ran = bench.sh(&bench.policy(), use_them).await;
    assert!(ran.ok(), "{}", ran.out);
    // The mode it has anyway, so that the baseline changes nothing. Only root owns the device.
    let script = |path: &str| format!("chmod 666 {path}; touch -c {path}; rm -f {path}");
    let ran = bench.sh(&bench.policy(), &script("/dev/null")).await;
    assert_eq!(ran.out.matches("Read-only").count() + ran.out.matches("busy").count(), 3, "{}", ran.out);
    if bench.host.uid == 0 {
        let policy = bench.policy().expose(Expose::read_write("/dev/null").at(bench.root.join("work/null")));
        let baseline = bench.sh(&policy, "chmod 666 null && echo changed").await;
        assert!(baseline.out.contains("changed"), "{}", baseline.out);
        let as_device = bench.sh(&policy, "echo x > null").await;
        assert!(as_device.out.contains("denied"), "no device outside /dev: {}", as_device.out);
    }
}

#[tokio::test]
async fn made_files_have_ordinary_modes() {
    let bench = Bench::new().await;
    let ran = bench.sh(&bench.policy(), "touch f && mkdir d && stat -c %a f d").await;
    assert_eq!(ran.out, "644\n755\n");
}

#[tokio::test]
async fn paths_need_not_be_text() {
    use std::os::unix::ffi::OsStrExt as _;
    let bench = Bench::new().await;
    let odd = bench.root.join(std::ffi::OsStr::from_bytes(b"a b\n\xff"));
    std::fs::create_dir(&odd).unwrap();
    let mut policy = bench.policy();
    policy.workdir.clone_from(&odd);
    let sandbox = bench.start(&policy).await;
    assert!(run(&sandbox, shell("touch made")).await.ok());
    assert!(odd.join("made").exists());
}

#[tokio::test]
async fn there_is_no_way_round() {
    let bench = Bench::new().await;
    let secret = bench.root.join("sibling/secret");
    let script = format!(
        "for p in /proc/self/root /proc/1/root /proc/self/cwd/../../../../.. /proc/1/cwd /dev/fd/0/../../.. $(pwd)/../../..; do \
         cat $p{0}; done; cat ../sibling/secret; ln -s {0} link; cat link; cd ..; cat sibling/secret",
        secret.display()
    );
    let shown = bench.policy().expose(Expose::read_only(&bench.root));
    let baseline = bench.sh(&shown, &script).await;
    assert!(baseline.out.contains("secretcat") || baseline.out.contains("secretsecret"), "{}", baseline.out);
    std::fs::remove_file(bench.root.join("work/link")).unwrap();
    let ran = bench.sh(&bench.policy(), &script).await;
    assert!(!ran.ok() && ran.out.lines().all(|line| line.starts_with("cat: ")), "{}", ran.out);
}

#[tokio::test]
async fn programs_that_change_the_user_and_device_files_do_nothing() {
    let bench = Bench::new().await;
    let script =
        "cp /usr/bin/id . && chmod 4755 id && ./id -u && ./id -ru; mknod null c 1 3 2>/dev/null && echo made; true";
    let ran = bench.sh(&bench.policy(), script).await;
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ran.out);
    assert_eq!(lines[0], lines[1]);
    assert_ne!(lines[0], "0");
}
