//! Messages as programs print them, each with what is to be made of it.

use proptest::prelude::*;
use sandbox::{Expose, Nesting, Network, Policy, PrivateDir};

use super::*;

fn policy() -> Policy {
    let home = PrivateDir { source: "/state/w/.private/home".into(), target: "/home/u".into() };
    Policy::new("/state/w/a", home, "/state/w/.private/tmp")
        .hide("/state/w")
        .hide("/home/u/repo")
        .hide("/srv/sockets")
        .expose(Expose::read_write("/state/w/.private/git").at("/home/u/repo/.git"))
        .expose(Expose::read_only("/objects").at("/home/u/repo/.git/parent-objects"))
        .expose(Expose::read_only("/home/u/bin"))
        .expose(Expose::read_write("/srv/cache"))
        .pin("/state/w/a/.git")
}

fn hints_of(policy: &Policy, output: &str) -> Vec<String> {
    let mut denials = Denials::new(Reach::new(policy, vec!["/home/u/bin".into(), "/opt/tools/bin".into()]));
    denials.take_in(output.as_bytes());
    denials.end().into_iter().map(|hint| hint.text).collect()
}

const EXPOSE: &str = "write to `/opt/x` seems to be blocked: outside the worktree; if it is meant to, add `/opt` under `sandbox.expose_rw`";
const SYSTEM: &str = "the system is read-only for agents";
const CHECKOUT: &str = "hidden from agents";
const NET: &str = "seems not to be reached: the agent has no network; see `sandbox.network`";
const TRACE: &str = "tracing (`ptrace`) seems to be denied";
const NONE: &str = "";

/// What was printed, and a part of the one hint; nothing at all is no hint.
const TABLE: &[(&str, &str)] = &[
    // coreutils
    ("touch: cannot touch '/opt/x': Read-only file system", EXPOSE),
    ("cp: cannot create regular file '/opt/x': Read-only file system", EXPOSE),
    ("mkdir: cannot create directory ‘/opt/x’: Read-only file system", EXPOSE),
    ("rm: cannot remove '/opt/x': Read-only file system", EXPOSE),
    ("mv: cannot move 'a' to '/opt/x': Read-only file system", EXPOSE),
    ("chmod: changing permissions of '/opt/x': Read-only file system", EXPOSE),
    ("touch: setting times of '/opt/x': Read-only file system", EXPOSE),
    ("ln: failed to create symbolic link '/opt/x': Read-only file system", EXPOSE),
    ("tee: /opt/x: Read-only file system", EXPOSE),
    ("dd: failed to open '/opt/x': Read-only file system", EXPOSE),
    ("install: cannot create regular file '/usr/local/bin/tool': Read-only file system", SYSTEM),
    ("touch: cannot touch '/opt/x': Permission denied", EXPOSE),
    ("touch: cannot touch '../other/x': Read-only file system", CHECKOUT),
    ("touch: cannot touch '/home/u/repo/README.md': Read-only file system", CHECKOUT),
    ("rm: cannot remove '/srv/sockets/x': Read-only file system", CHECKOUT),
    ("mv: cannot move '/state/w/a/.git' to '/state/w/a/git': Device or resource busy", NONE),
    ("rm: cannot remove '/state/w/a/.git': Read-only file system", "the worktree's link"),
    // Nothing of the box's doing.
    ("touch: cannot touch '/state/w/a/x': Permission denied", NONE),
    ("touch: cannot touch '/home/u/x': Read-only file system", NONE),
    ("touch: cannot touch '/tmp/x': Read-only file system", NONE),
    ("touch: cannot touch '/srv/cache/x': Permission denied", NONE),
    ("touch: cannot touch '/home/u/repo/.git/x': Permission denied", NONE),
    ("touch: cannot touch 'x': Permission denied", NONE),
    ("cat: /etc/shadow: Permission denied", NONE),
    ("ls: cannot open directory '/root': Permission denied", NONE),
    ("chown: changing ownership of 'x': Operation not permitted", NONE),
    ("assert_eq!(error.to_string(), \"Read-only file system\")", NONE),
    ("see the chapter on read-only file systems and what is not permitted", NONE),
    ("permission denied", NONE),
    ("", NONE),
    // bash, dash, busybox
    ("bash: line 1: /opt/x: Read-only file system", EXPOSE),
    ("sh: 1: cannot create /opt/x: Read-only file system", EXPOSE),
    ("/state/w/a/build.sh: 3: cannot create /opt/x: Read-only file system", EXPOSE),
    ("/state/w/a/build.sh: line 3: /opt/x: Read-only file system", EXPOSE),
    ("touch: /opt/x: Read-only file system", EXPOSE),
    ("bash: connect: Network is unreachable", "a host seems not"),
    ("bash: /dev/tcp/93.184.216.34/80: Network is unreachable", NET),
    ("wget: bad address 'example.com'", NET),
    ("ping: bad address 'example.com'", NET),
    // git
    ("fatal: unable to access 'https://example.com/x.git/': Could not resolve host: example.com", NET),
    ("ssh: Could not resolve hostname example.com: Temporary failure in name resolution", NET),
    ("fatal: could not open '/opt/x' for writing: Read-only file system", EXPOSE),
    ("fatal: Unable to create '/home/u/repo/x.lock': Read-only file system", CHECKOUT),
    ("error: could not create leading directories of '/opt/x': Read-only file system", EXPOSE),
    // cargo
    (
        "warning: spurious network error (3 tries remaining): [6] Could not resolve hostname (Could not resolve host: example.com)",
        NET,
    ),
    ("error: failed to create directory `/opt/x`\n\nCaused by:\n  Read-only file system (os error 30)", EXPOSE),
    ("error: failed to open: /opt/x\n\nCaused by:\n  Permission denied (os error 13)", NONE),
    ("thread 'main' panicked: Os { code: 30, kind: ReadOnlyFilesystem, message: \"Read-only file system\" }", NONE),
    // npm, node
    ("npm error Error: EROFS: read-only file system, mkdir '/opt/x'", EXPOSE),
    ("npm error [Error: EACCES: permission denied, mkdir '/opt/x'] {", EXPOSE),
    ("Error: EROFS: read-only file system, open '/opt/x'", EXPOSE),
    ("npm error request to https://example.com/left-pad failed, reason: getaddrinfo EAI_AGAIN example.com", NET),
    ("Error: getaddrinfo ENOTFOUND example.com", NET),
    ("Error: connect ENETUNREACH 93.184.216.34:443 - Local (0.0.0.0:0)", NET),
    ("Error: connect ECONNREFUSED 93.184.216.34:443", NET),
    ("Error: connect ECONNREFUSED 127.0.0.1:5432", NONE),
    ("Error: connect ECONNREFUSED ::1:5432", NONE),
    // python
    ("OSError: [Errno 30] Read-only file system: '/opt/x'", EXPOSE),
    ("PermissionError: [Errno 13] Permission denied: '/opt/x'", NONE),
    (
        "ERROR: Could not install packages due to an OSError: [Errno 30] Read-only file system: '/usr/lib/python3/x'",
        SYSTEM,
    ),
    ("socket.gaierror: [Errno -3] Temporary failure in name resolution", "a host seems not"),
    (
        "HTTPSConnectionPool(host='example.com', port=443): Max retries exceeded (Caused by NameResolutionError(\"Failed to resolve 'example.com' ([Errno -3] Temporary failure in name resolution)\"))",
        NET,
    ),
    ("OSError: [Errno 101] Network is unreachable", "a host seems not"),
    ("ConnectionRefusedError: [Errno 111] Connection refused", NONE),
    // go
    ("open /opt/x: read-only file system", EXPOSE),
    ("mkdir /opt/x: read-only file system", EXPOSE),
    (
        "go: example.com/m@v1: Get \"https://example.com/\": dial tcp: lookup example.com on 1.1.1.1:53: dial udp 1.1.1.1:53: connect: network is unreachable",
        "`1.1.1.1` seems not",
    ),
    ("dial tcp: lookup example.com: no such host", NET),
    ("dial tcp: lookup example.com: Temporary failure in name resolution", NET),
    ("dial tcp 93.184.216.34:443: connect: network is unreachable", NET),
    ("dial tcp 127.0.0.1:8080: connect: connection refused", NONE),
    // curl, wget, ssh, apt
    ("curl: (6) Could not resolve host: example.com", NET),
    ("curl: (7) Failed to connect to example.com port 443 after 1 ms: Connection refused", NET),
    ("curl: (7) Failed to connect to localhost port 8080 after 0 ms: Connection refused", NONE),
    ("wget: unable to resolve host address ‘example.com’", NET),
    ("ssh: connect to host 93.184.216.34 port 22: Network is unreachable", NET),
    ("  Temporary failure resolving 'example.com'", NET),
    ("ping: example.com: Temporary failure in name resolution", NET),
    ("\u{1b}[31mcurl: (6) Could not resolve host: example.com\u{1b}[0m", NET),
    // Calls.
    ("strace: test_ptrace_get_syscall_info: PTRACE_TRACEME: Operation not permitted", TRACE),
    ("strace: attach: ptrace(PTRACE_SEIZE, 12): Operation not permitted", TRACE),
    ("warning: ptrace: Operation not permitted", TRACE),
    ("==3==HINT: LeakSanitizer does not work under ptrace (strace, gdb, etc)", TRACE),
    ("could not launch process: fork/exec ./x: operation not permitted", TRACE),
    ("perf_event_open(..., PERF_FLAG_FD_CLOEXEC) failed with unexpected error 1 (Operation not permitted)", "`perf`"),
    ("io_uring_queue_init: Operation not permitted", "`io_uring`"),
    ("unshare: unshare failed: Operation not permitted", "`sandbox.nested = true`"),
    (
        "bwrap: No permissions to create new namespace, likely because the kernel does not allow it",
        "`sandbox.nested = true`",
    ),
    ("[1:1:FATAL:zygote_host_impl_linux.cc(126)] No usable sandbox! Update your kernel", "`sandbox.nested = true`"),
    ("mount: /mnt: permission denied.", "mounting"),
    ("sudo: The \"no new privileges\" flag is set, which prevents sudo from running as root.", "`sudo`"),
    ("sudo: effective uid is not 0, is /usr/bin/sudo on a file system with the 'nosuid' option set?", "`sudo`"),
    ("ping: socktype: SOCK_RAW: Operation not permitted", "raw sockets"),
    (
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running? connection refused",
        "docker",
    ),
    ("Could not open a connection to your authentication agent.", "key agent"),
];

#[test]
fn what_is_made_of_each_message() {
    for (output, expected) in TABLE {
        let hints = hints_of(&policy(), output);
        match (*expected, hints.as_slice()) {
            (NONE, []) => {}
            (part, [hint]) if part != NONE && hint.contains(part) && hint.contains("seem") => {}
            _ => panic!("{output}\n  expected: {expected}\n  found: {hints:?}"),
        }
    }
}

#[test]
fn names_are_taken_from_the_message() {
    for (output, _) in TABLE.iter().filter(|(output, hint)| *hint == NET && output.contains("example.com")) {
        assert!(hints_of(&policy(), output)[0].starts_with("`example.com`"), "{output}");
    }
    for (output, _) in TABLE.iter().filter(|(output, hint)| *hint == NET && output.contains("93.184")) {
        assert!(hints_of(&policy(), output)[0].starts_with("`93.184.216.34`"), "{output}");
    }
}

#[test]
fn what_the_box_lets_is_no_denial() {
    let open = policy().network(Network::Host).nesting(Nesting::Allowed);
    for (output, expected) in TABLE {
        let told = hints_of(&open, output);
        if *expected == NET || expected.contains("a host") || expected.contains("nested") || *expected == "mounting" {
            assert_eq!(told, Vec::<String>::new(), "{output}");
        }
    }
    let listed = policy().network(Network::Relay { port: 3128 });
    let told = hints_of(&listed, "curl: (6) Could not resolve host: example.com\n");
    assert!(told[0].contains("`example.com`") && told[0].contains("under `allow`"), "{told:?}");
}

#[test]
fn the_same_thing_is_told_once_and_counted() {
    let lines = "touch: cannot touch '/opt/x': Read-only file system\n\
                 touch: cannot touch '/opt/y': Read-only file system\n\
                 curl: (6) Could not resolve host: example.com\n\
                 touch: cannot touch '/opt/x': Read-only file system\n";
    let told = hints_of(&policy(), lines);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("write to `/opt/x`") && told[0].ends_with("(3 times)"), "{told:?}");
    assert!(!told[1].contains("times"), "{told:?}");
}

#[test]
fn much_is_told_in_few_words() {
    let many: Vec<String> =
        (0..5_000).map(|n| format!("touch: cannot touch '/opt/{n}/x': Read-only file system\n")).collect();
    let told = hints_of(&policy(), &many.concat());
    assert_eq!(told.len(), TOLD + 1);
    assert!(told[TOLD].contains("more"), "{told:?}");
    let long = format!("touch: cannot touch '/opt/{}': Read-only file system\n", "x".repeat(3_000));
    assert!(hints_of(&policy(), &long)[0].chars().count() < 700);
    // A line without an end takes no more room than any other.
    let mut denials = Denials::new(Reach::new(&policy(), Vec::new()));
    for _ in 0..1_000 {
        denials.take_in(&[b'x'; 10_000]);
    }
    assert_eq!(denials.line.len(), LINE);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_bytes_in_any_pieces_give_the_same(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..300, row in 0..TABLE.len()) {
        let mut output = bytes;
        output.push(b'\n');
        output.extend_from_slice(TABLE[row].0.as_bytes());
        output.push(b'\n');
        let cut = cut.min(output.len());
        let whole = {
            let mut denials = Denials::new(Reach::new(&policy(), Vec::new()));
            denials.take_in(&output);
            denials.end()
        };
        let mut denials = Denials::new(Reach::new(&policy(), Vec::new()));
        denials.take_in(&output[..cut]);
        denials.take_in(&output[cut..]);
        prop_assert_eq!(denials.end(), whole);
    }

    #[test]
    fn any_text_between_the_words_is_survived(text in "[ '\"`‘’:/.a-zé\u{1b}\\[]{0,60}", more in "[ '\"`‘’:/.a-zé]{0,60}") {
        for words in message::WORDS {
            hints_of(&policy(), &format!("{text}{words}{more}\n"));
            hints_of(&policy(), &format!("failed to {text}\n  {words}{more}\n"));
        }
    }
}
