use super::*;
use crate::host::{Kernel, Obstacle};
use crate::policy::{Expose, Limits, OpenFiles, PrivateDir};

const ROOT: Host = Host {
    uid: 0,
    gid: 0,
    kernel: Kernel { major: 6, minor: 18 },
    landlock: Some(7),
    seccomp: true,
    obstacle: None,
    control_groups: None,
    kill_group: None,
    metadata: true,
    process_numbers: true,
};
const USER: Host =
    Host { uid: 501, gid: 20, kernel: Kernel { major: 5, minor: 12 }, landlock: None, process_numbers: false, ..ROOT };

/// The shape that an agent's box has: everything below one home.
fn agent() -> Policy {
    let home = PrivateDir { source: "/h/u/state/.private/a/home".into(), target: "/h/u".into() };
    Policy::new("/h/u/state/a", home, "/h/u/state/.private/a/tmp")
        .hide("/h/u/state")
        .hide("/h/u/repo")
        .expose(Expose::read_only("/h/u/.cargo/bin"))
        .expose(Expose::read_write("/h/u/state/.private/a/git").at("/h/u/repo/.git"))
        .expose(Expose::read_only("/h/u/repo/.git/objects").at("/h/u/repo/.git/parent-objects"))
        .pin("/h/u/state/a/.git")
}

fn text(policy: &Policy, host: &Host) -> String {
    Enforcement::plan(policy, host).unwrap().to_string()
}

fn refusal(policy: &Policy) -> String {
    Enforcement::plan(policy, &ROOT).unwrap_err().to_string()
}

#[test]
fn the_plan_of_an_agent() {
    let expected = "\
kill first, score 500
unshare user mount pid ipc uts cgroup net
map user 1000=0, group 1000=0, setgroups deny
mounts private
clone #0 /h/u/state/a rw
clone #1 /h/u/state/.private/a/home rw
clone #2 /h/u/state/.private/a/tmp rw
clone #3 /h/u/.cargo/bin ro
clone #4 /h/u/state/.private/a/git rw
clone #5 /h/u/repo/.git/objects ro
clone #6 /h/u/state/a/.git ro
root read-only, nosuid, nodev
devices, /dev/shm of 268435456
proc nosuid, nodev, noexec
process numbers below 4396
forbid user namespaces
proc parts read-only
scratch /run mode 755 of 268435456
bind #2 /tmp
scratch /var/tmp mode 1777 of 268435456
bind #1 /h/u
hide /h/u/repo
hide /h/u/state
bind #0 /h/u/state/a
bind #3 /h/u/.cargo/bin
bind #4 /h/u/repo/.git
bind #5 /h/u/repo/.git/parent-objects
bind #6 /h/u/state/a/.git
seal /h/u/repo
seal /h/u/state
pivot
hostname sandbox
loopback up
drop capabilities
no new privileges
init unreadable
limit core 0
landlock 7, scopes, write only /dev /h/u /proc /run /tmp /var/tmp
seccomp
watch processes 4096
watch the machine's memory and disk
";
    assert_eq!(text(&agent(), &ROOT), expected);
}

#[test]
fn a_fresh_proc_is_to_be_had_inside_by_an_ordinary_user_alone() {
    for (policy, host, covered) in [
        (agent(), &ROOT, true),
        (agent(), &USER, true),
        (agent().nesting(Nesting::Allowed), &ROOT, true),
        (agent().nesting(Nesting::Allowed), &USER, false),
    ] {
        assert_eq!(text(&policy, host).contains("proc parts read-only"), covered, "{:?} {}", policy.nesting, host.uid);
    }
}

#[test]
fn what_a_policy_adds() {
    let policy = agent()
        .network(Network::Host)
        .nesting(Nesting::Allowed)
        .workdir_access(Access::ReadOnly)
        .hostname("parser")
        .mask("/h/u/.cargo/credentials.toml")
        .listen("/run/sandbox/turn.sock")
        .limits(Limits {
            file_size: Some(7),
            open_files: Some(OpenFiles { soft: 6, hard: 8 }),
            scratch: Some(9),
            ..Limits::default()
        });
    let (plain, rich) = (text(&agent(), &ROOT), text(&policy, &USER));
    let only = |one: &str, other: &str| -> Vec<String> {
        one.lines().filter(|line| !other.lines().any(|o| o == *line)).map(ToOwned::to_owned).collect()
    };
    assert_eq!(
        only(&rich, &plain),
        [
            "unshare user mount pid ipc uts cgroup",
            "map user 501=501, group 20=20, setgroups deny",
            "clone #0 /h/u/state/a ro",
            "devices, /dev/shm of 9",
            "scratch /run mode 755 of 9",
            "scratch /var/tmp mode 1777 of 9",
            "mask /h/u/.cargo/credentials.toml",
            "hostname parser",
            "listen /run/sandbox/turn.sock",
            "limit file size 7",
            "limit open files 6, at most 8",
            "seccomp, namespaces allowed",
        ]
    );
    let lost = only(&plain, &rich);
    assert!(lost.contains(&"loopback up".to_owned()) && lost.contains(&"forbid user namespaces".to_owned()));
}

/// What limits add to a plan, with each means that a machine may have.
#[test]
fn limits_by_every_means() {
    let limits = Limits {
        memory: Some(1 << 30),
        processes: Some(500),
        cpu_weight: Some(50),
        disk: Some(2 << 30),
        file_size: Some(3 << 30),
        ..Limits::default()
    };
    let groups = |memory, processes, cpu| ControlGroups { parent: "/g".into(), memory, processes, cpu };
    let of = |groups: Option<ControlGroups>, host: &Host| {
        let host = Host { control_groups: groups, ..host.clone() };
        let policy = agent().limits(limits.clone()).may_lack(Layer::Limits);
        let (with, without) = (text(&policy, &host), text(&agent(), &Host { control_groups: None, ..host.clone() }));
        let added: Vec<&str> = with.lines().filter(|line| !without.lines().any(|other| other == *line)).collect();
        added.join("\n")
    };
    let disk = "limit file size 3221225472\nwatch disk 2147483648 of /h/u/state/a /h/u /tmp /h/u/repo/.git";
    let disk_after = |watch: &str| disk.replace("\nwatch", &format!("\n{watch}\nwatch"));
    let old = Host { kernel: Kernel { major: 5, minor: 14 }, process_numbers: false, ..ROOT };
    let user = Host { uid: 501, ..old.clone() };
    let held = "control group below /g, memory 1073741824, processes 500, cpu weight 50";
    let watched = "watch memory 1073741824";
    for (groups, host, expected) in [
        (Some(groups(true, true, true)), &ROOT, format!("{held}\n{}", disk_after("watch processes 500"))),
        (
            Some(groups(false, true, false)),
            &ROOT,
            format!(
                "control group below /g, processes 500\n{}",
                disk_after(&format!("{watched}\nwatch processes 500"))
            ),
        ),
        (None, &ROOT, format!("process numbers below 800\n{}", disk_after(&format!("{watched}\nwatch processes 500")))),
        // The limit on each process comes first among those of commands.
        (None, &user, format!("limit processes 502\n{}", disk_after(&format!("{watched}\nwatch processes 500")))),
        (None, &old, disk_after(watched)),
    ] {
        assert_eq!(of(groups, host), expected);
    }
    for (policy, host) in [(agent().limits(limits.clone()), &old), (agent().limits(limits.clone()), &ROOT)] {
        let refusal = Enforcement::plan(&policy, host).unwrap_err();
        assert_eq!(refusal.layer, Layer::Limits, "{refusal}");
        assert_eq!(host.check_limits(&limits, &policy.may_lack), Err(refusal));
    }
}

#[test]
fn what_is_hidden_and_exposed_is_exposed() {
    let policy = agent().hide("/run").hide("/h/u").hide("/srv/x").expose(Expose::read_only("/srv/x"));
    let text = text(&policy, &ROOT);
    assert!(!text.contains("hide /srv/x") && !text.contains("hide /h/u\n"), "{text}");
    assert!(text.contains("bind #6 /srv/x"), "{text}");
    assert!(text.contains("seal /run\n") && !text.contains("scratch /run"), "hidden, so not to be written: {text}");
}

#[test]
fn steps_come_in_an_order_that_holds() {
    let plan = Enforcement::plan(&agent().hide("/srv").mask("/h/u/.cargo/bin/x"), &ROOT).unwrap();
    let steps = plan.steps();
    let at = |wanted: &dyn Fn(&Step) -> bool| steps.iter().position(wanted).unwrap();
    let last = |wanted: &dyn Fn(&Step) -> bool| steps.iter().rposition(wanted).unwrap();
    let root = at(&|s| *s == Step::Root);
    let pivot = at(&|s| *s == Step::Pivot);
    assert!(last(&|s| matches!(s, Step::Clone { .. })) < root, "sources before anything is covered");
    assert!(at(&|s| *s == Step::Processes) < pivot, "a fresh /proc while the host's is in view");
    assert!(at(&|s| *s == Step::ForbidNesting) < at(&|s| *s == Step::ProtectProcesses));
    assert!(last(&|s| depth(s) > 0) < at(&|s| matches!(s, Step::Seal { .. })));
    let targets: Vec<usize> = steps.iter().map(depth).filter(|depth| *depth > 0).collect();
    assert!(targets.is_sorted(), "short before long: {targets:?}");
    let stages: Vec<u8> = steps
        .iter()
        .map(|step| match step.stage() {
            crate::step::Stage::Outer => 0,
            crate::step::Stage::Init => 1,
            crate::step::Stage::Command => 2,
        })
        .collect();
    assert!(stages.is_sorted());
}

#[test]
fn a_relay_is_made_in_a_network_of_its_own_before_rights_are_dropped() {
    let relay = agent().network(Network::Relay { port: 3128 });
    let steps = Enforcement::plan(&relay, &ROOT).unwrap().steps().to_vec();
    let at = |wanted: Step| steps.iter().position(|step| *step == wanted).unwrap();
    assert!(at(Step::Unshare { network: true }) < at(Step::Loopback));
    assert!(at(Step::Loopback) < at(Step::Relay { port: 3128 }));
    assert!(at(Step::Relay { port: 3128 }) < at(Step::DropCapabilities));
    assert_eq!(Step::Relay { port: 3128 }.to_string(), "relay 127.0.0.1:3128");
    for network in [Network::None, Network::Host] {
        assert_eq!(Enforcement::plan(&agent().network(network), &ROOT).unwrap().relay(), None);
    }
    assert!(refusal(&agent().network(Network::Relay { port: 0 })).contains("0 is none"));
}

#[test]
fn a_host_that_cannot_is_refused() {
    let blocked = Host { obstacle: Some(Obstacle::AppArmor), ..ROOT };
    let refusal = Enforcement::plan(&agent(), &blocked).unwrap_err();
    assert_eq!(refusal.layer, Layer::Namespaces);
    assert!(refusal.cause.contains("AppArmor") && refusal.fix.contains("sysctl"));
    let old = Host { kernel: Kernel { major: 5, minor: 11 }, ..ROOT };
    assert!(Enforcement::plan(&agent(), &old).unwrap_err().cause.contains("5.11"));
}

#[test]
fn paths_that_cannot_be_compared_are_refused() {
    for path in ["relative", "", "/a/../b", "/a/./b", "/a//b", "/a/", "/a\0b"] {
        for policy in [
            agent().hide(path),
            agent().mask(path),
            agent().pin(path),
            agent().listen(path),
            agent().expose(Expose::read_only(path)),
            agent().expose(Expose::read_only("/x").at(path)),
        ] {
            assert!(refusal(&policy).contains("not absolute and plain"), "{path:?}");
        }
    }
    assert!(refusal(&agent().hide("/")).contains("the root itself"));
    for path in ["/proc/sys", "/dev/null", "/sys/fs/cgroup", "/proc", "/dev"] {
        assert!(refusal(&agent().expose(Expose::read_only("/x").at(path))).contains("each box has of its own"));
    }
    assert!(refusal(&agent().hostname("")).contains("host name"));
    assert!(refusal(&agent().hostname("x".repeat(65))).contains("host name"));
    let many = (0..17).fold(agent(), |policy, n| policy.listen(format!("/run/{n}")));
    assert!(refusal(&many).contains("17 sockets"));
}

#[test]
fn one_place_has_one_source() {
    assert!(refusal(&agent().expose(Expose::read_only("/x").at("/h/u"))).contains("two sources for `/h/u`"));
    assert!(refusal(&agent().expose(Expose::read_only("/x").at("/tmp"))).contains("two sources"));
    let twice = agent().expose(Expose::read_only("/x")).expose(Expose::read_only("/y").at("/x"));
    assert!(refusal(&twice).contains("two sources"));
}

#[test]
fn no_second_name_uncovers_what_is_hidden() {
    let elsewhere = agent().expose(Expose::read_only("/h/u").at("/mnt"));
    assert!(refusal(&elsewhere).contains("`/h/u/state` is hidden, yet would be seen at `/mnt/state`"));
    let itself = agent().expose(Expose::read_only("/h/u/repo").at("/mnt"));
    assert!(refusal(&itself).contains("`/h/u/repo` is hidden"));
    let masked = agent().mask("/srv/key").expose(Expose::read_only("/srv").at("/mnt"));
    assert!(refusal(&masked).contains("/mnt/key"));
    // Hidden there as well, and no more is asked.
    let both = agent().expose(Expose::read_only("/srv").at("/mnt")).mask("/srv/key").mask("/mnt/key");
    assert!(Enforcement::plan(&both, &ROOT).is_ok());
    // At its own place the cover is on top.
    assert!(Enforcement::plan(&agent().hide("/srv/x").expose(Expose::read_write("/srv")), &ROOT).is_ok());
}

#[test]
fn no_second_name_makes_the_read_only_writable() {
    let over = agent().expose(Expose::read_only("/srv/lib")).expose(Expose::read_write("/srv").at("/mnt"));
    assert!(refusal(&over).contains("`/srv/lib` is exposed read-only, yet could be written at `/mnt/lib`"));
    let same = agent().expose(Expose::read_only("/srv")).expose(Expose::read_write("/srv").at("/mnt"));
    assert!(refusal(&same).contains("could be written at `/mnt`"));
    let unpinned = agent().expose(Expose::read_write("/h/u/state/a").at("/mnt"));
    assert!(refusal(&unpinned).contains("/mnt/.git"), "{}", refusal(&unpinned));
    // Below its own writable parent the read-only one is on top.
    let below = agent().expose(Expose::read_write("/srv")).expose(Expose::read_only("/srv/lib"));
    assert!(Enforcement::plan(&below, &ROOT).is_ok());
}

/// All policies of up to three exposes and hides over a small tree: whatever is accepted, no hidden path can be seen and no
/// read-only source written. The oracle looks at the mounts of the plan, not at the rules of the check.
#[test]
fn accepted_plans_keep_their_word() {
    let paths = ["/a", "/a/b", "/a/b/c", "/d"];
    let targets = ["/a", "/a/b", "/e"];
    let mut exposes = Vec::new();
    for source in paths {
        for target in targets {
            for access in [Access::ReadOnly, Access::ReadWrite] {
                exposes.push(Expose { source: source.into(), target: target.into(), access });
            }
        }
    }
    let (mut accepted, mut refused) = (0, 0);
    for hide in paths {
        for one in &exposes {
            for two in &exposes {
                let home = PrivateDir { source: "/p/home".into(), target: "/home".into() };
                let policy = Policy::new("/w", home, "/p/tmp").hide(hide).expose(one.clone()).expose(two.clone());
                match Enforcement::plan(&policy, &ROOT) {
                    Ok(plan) => {
                        accepted += 1;
                        keeps_its_word(&policy, &plan);
                    }
                    Err(_) => refused += 1,
                }
            }
        }
    }
    assert!(accepted > 100 && refused > 100, "{accepted} {refused}");
}

/// What is seen at `path`: the host path behind it, and whether it can be written; `None` if nothing of the host is.
fn seen(plan: &Enforcement, path: &Path) -> Option<(PathBuf, bool)> {
    let mut seen = Some((path.to_owned(), false));
    for step in plan.steps() {
        match step {
            Step::Hide { target } | Step::Scratch { target, .. } if path.starts_with(target) => {
                seen = None;
            }
            Step::Bind { id, target } => {
                let Ok(rest) = path.strip_prefix(target) else {
                    continue;
                };
                seen = plan.steps().iter().find_map(|step| match step {
                    Step::Clone { id: of, source, access } if of == id => {
                        Some((source.join(rest), !access.is_read_only()))
                    }
                    _ => None,
                });
            }
            _ => {}
        }
    }
    seen
}

fn keeps_its_word(policy: &Policy, plan: &Enforcement) {
    let bases = ["/a", "/d", "/e", "/w", "/home", "/tmp"];
    let rests = ["", "b", "c", "x", "b/c", "b/c/x", "c/x", "b/x"];
    for base in bases {
        for rest in rests {
            let path = Path::new(base).join(rest);
            let path: PathBuf = path.components().collect();
            let Some((real, writable)) = seen(plan, &path) else {
                continue;
            };
            for hide in &policy.hide {
                let wanted = policy
                    .expose
                    .iter()
                    .any(|e| e.source == e.target && real.starts_with(&e.source) && e.source.starts_with(hide));
                let named = policy
                    .expose
                    .iter()
                    .any(|e| real.starts_with(&e.source) && e.source.starts_with(hide) && e.source != *hide);
                assert!(
                    !real.starts_with(hide) || wanted || named,
                    "{} shows {} of {policy:?}",
                    path.display(),
                    real.display()
                );
            }
            for expose in policy.expose.iter().filter(|e| e.access == Access::ReadOnly) {
                let meant = policy.expose.iter().any(|e| {
                    e.access == Access::ReadWrite
                        && real.starts_with(&e.source)
                        && e.source.starts_with(&expose.source)
                        && e.source != expose.source
                });
                assert!(
                    !(writable && real.starts_with(&expose.source)) || meant,
                    "{} writes {} of {policy:?}",
                    path.display(),
                    real.display()
                );
            }
        }
    }
}

#[test]
fn the_plan_of_an_agent_without_namespaces() {
    let host = Host { obstacle: Some(Obstacle::AppArmor), kill_group: Some("/sys/fs/cgroup/u".into()), ..ROOT };
    let policy = agent().mask("/h/u/.cargo/bin/token").may_lack(Layer::Namespaces);
    let expected = "\
kill first, score 500
leave groups and keyring
kill group in /sys/fs/cgroup/u
adopt orphans
link /h/u/state/.private/a/home/.cargo/bin -> /h/u/.cargo/bin
drop capabilities
no new privileges
init unreadable
limit core 0
landlock 7, scopes, no tcp, write only /dev/full /dev/null /dev/random /dev/tty /dev/urandom /dev/zero \
/h/u/state/.private/a/git /h/u/state/.private/a/home /h/u/state/.private/a/tmp /h/u/state/a, \
read only /bin /etc /gnu /h/u/.cargo/bin /h/u/repo/.git/objects /lib /lib32 /lib64 /libx32 /nix /opt /proc \
/run/current-system /sbin /snap /sys /usr, \
but not /dev/shm /h/u /h/u/.cargo/bin/token /h/u/repo /h/u/state /run /tmp /var/tmp
metadata by init, only /h/u/state/.private/a/git /h/u/state/.private/a/home /h/u/state/.private/a/tmp /h/u/state/a
no sockets
seccomp
watch the machine's memory and disk
";
    assert_eq!(text(&policy, &host), expected);
    let networked = text(&policy.clone().network(Network::Host), &Host { landlock: Some(4), ..host.clone() });
    assert!(networked.contains("landlock 4, write only") && networked.contains("\nsockets of the network only\n"));
    // Nothing of it holds where namespaces are there.
    assert_eq!(text(&policy, &ROOT), text(&agent().mask("/h/u/.cargo/bin/token"), &ROOT));
}
