use super::*;

const HYBRID: &[u8] = b"31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
    39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n\
    41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
const UNIFIED: &[u8] =
    b"30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const PART: &[u8] = b"30 23 0:26 /docker/ab /sys/fs/a\\040b rw - cgroup2 cgroup rw\n";

#[test]
fn the_own_group_and_those_above_are_candidates() {
    let table: &[(&[u8], &[u8], &[&str])] = &[
        (b"9:name=systemd:/\n8:pids:/\n0::/\n", HYBRID, &["/sys/fs/cgroup/unified"]),
        (b"0::/a/b\n", UNIFIED, &["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]),
        (b"0::/docker/ab/x\n", PART, &["/sys/fs/a b/x", "/sys/fs/a b"]),
        // Another part of the tree is mounted, the own group lies outside of the namespace, or there is no version 2.
        (b"0::/docker/cd\n", PART, &[]),
        (b"0::/../other\n", UNIFIED, &[]),
        (b"4:memory:/x\n", UNIFIED, &[]),
        (b"0::/a\n", b"39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n", &[]),
        (b"", b"", &[]),
    ];
    for (own, mounts, expected) in table {
        let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(candidates(own, mounts), expected, "{}", String::from_utf8_lossy(own));
    }
}

/// A folder like a group that offers and passes on these controllers.
fn fake(at: &Path, offered: &str, passed_on: &str) {
    std::fs::create_dir_all(at).unwrap();
    for (name, text) in [("cgroup.controllers", offered), ("cgroup.subtree_control", passed_on)] {
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).open(at.join(name)).unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    }
}

#[test]
fn the_place_that_bounds_most_is_taken_and_none_is_left_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (own, slice, user) =
        (folder.path().join("user/slice/own"), folder.path().join("user/slice"), folder.path().join("user"));
    fake(&user, "cpu memory pids\n", "memory pids\n");
    fake(&slice, "memory pids\n", "memory pids\n");
    fake(&own, "memory pids\n", "");
    let found = ControlGroups::among(&[own.clone(), slice.clone(), user.clone(), folder.path().join("none")]);
    // In a real one the attempts to pass on more are refused or are seen in what is read back; here the file takes them.
    let parents: Vec<&Path> = found.iter().map(|groups| groups.parent.as_path()).collect();
    assert!(parents.contains(&slice.as_path()) && !parents.contains(&folder.path().join("none").as_path()));
    let slice_found = found.iter().find(|groups| groups.parent == slice).unwrap();
    assert!(slice_found.memory && slice_found.processes && !slice_found.cpu);
    let left = std::fs::read_dir(&slice).unwrap().flatten().filter(|entry| entry.file_name() != "own").count();
    assert_eq!(left, 2, "only the files that were there");
}

#[test]
fn what_is_written_where() {
    let all = Bounds { memory: Some(7), processes: Some(8), cpu_weight: Some(9) };
    assert_eq!(all.controllers(), "+memory +pids");
    let told: Vec<String> =
        all.settings().iter().map(|(name, value, may_lack)| format!("{} {value} {may_lack}", name.display())).collect();
    assert_eq!(
        told,
        [
            "cpu.weight 9 false",
            "commands/memory.max 7 false",
            "commands/memory.swap.max 0 true",
            "commands/memory.oom.group 1 false",
            "commands/pids.max 8 false",
        ]
    );
    assert_eq!(Bounds::default().controllers(), "");
    assert!(Bounds::default().settings().is_empty());
}

#[test]
fn only_what_is_ours_and_left_over_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let own = own_name();
    let pid = std::process::id();
    let start = start_time(pid).unwrap();
    let reused = format!("{PREFIX}{pid}-{}-0", start + 1);
    let gone = format!("{PREFIX}{}-5-0", u32::MAX);
    let full = format!("{PREFIX}{}-5-1", u32::MAX);
    for name in [&own, &reused, &gone, &full, "other", "sandbox-box-x-1-2", "sandbox-box-1-2"].map(AsRef::<str>::as_ref)
    {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    for inner in [COMMANDS, APART, "more"] {
        std::fs::create_dir(folder.path().join(&full).join(inner)).unwrap();
        if inner != "more" {
            std::fs::create_dir(folder.path().join(&gone).join(inner)).unwrap();
        }
    }
    remove_left_overs(folder.path());
    let mut left: Vec<String> =
        std::fs::read_dir(folder.path()).unwrap().flatten().map(|e| e.file_name().into_string().unwrap()).collect();
    left.sort();
    let mut expected =
        vec![own, full, "other".to_owned(), "sandbox-box-x-1-2".to_owned(), "sandbox-box-1-2".to_owned()];
    expected.sort();
    assert_eq!(left, expected);
}

#[test]
fn events_are_read() {
    let text = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n";
    assert_eq!(keyed(text, "oom_kill"), Some(2));
    assert_eq!(keyed(text, "oom"), Some(3));
    assert_eq!(keyed(text, "swap"), None);
}

/// What cannot be tried where the machine has no controllers, on plain files.
#[test]
fn a_group_is_set_up_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("box");
    let file = |name: &str, text: &str| {
        let path = path.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).open(path).unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    };
    let files = [
        "cgroup.subtree_control",
        "cpu.weight",
        "commands/memory.max",
        "commands/memory.oom.group",
        "commands/pids.max",
        "commands/cgroup.procs",
        "commands/cgroup.kill",
        "apart/cgroup.procs",
    ];
    for name in files {
        file(name, "");
    }
    file("commands/memory.events", "low 0\noom 1\noom_kill 4\n");
    file("commands/pids.events", "max 7\n");
    file("commands/pids.current", "12\n");
    let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap();

    // Without accounting for swap there is no file for it; without that for memory there is nothing to bound.
    let bounds = Bounds { memory: Some(1 << 20), processes: Some(9), cpu_weight: Some(50) };
    let leaf = std::mem::ManuallyDrop::new(Leaf { path: path.clone() });
    let group = Group::of(leaf.set_up(bounds).unwrap()).unwrap();
    for (name, text) in [
        ("cgroup.subtree_control", "+memory +pids"),
        ("cpu.weight", "50"),
        ("commands/memory.max", "1048576"),
        ("commands/memory.oom.group", "1"),
        ("commands/pids.max", "9"),
    ] {
        assert_eq!(read(name), text, "{name}");
    }
    group.enter().unwrap();
    group.step_aside().unwrap();
    group.kill();
    assert_eq!((read("commands/cgroup.procs"), read("apart/cgroup.procs")), ("0".to_owned(), "0".to_owned()));
    assert_eq!(read("commands/cgroup.kill"), "1");
    assert_eq!(group.number("pids.current"), Some(12));
    assert_eq!(group.count("memory.events", "oom_kill"), Some(4));
    assert_eq!(group.count("pids.events", "max"), Some(7));
    assert_eq!((group.number("memory.current"), group.count("memory.events", "none")), (None, None));

    std::fs::remove_file(path.join("commands/memory.max")).unwrap();
    let fault = leaf.set_up(bounds).unwrap_err();
    assert!(fault.path.unwrap().ends_with("commands/memory.max"), "named");
}
