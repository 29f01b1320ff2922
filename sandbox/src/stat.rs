//! What `/proc/<pid>/stat` says of a process, or of a thread (`proc_pid_stat(5)`).

use nix::unistd::Pid;
use std::path::Path;

/// The fields after the name. The name may itself hold anything, `)` and spaces too; it ends at the last `)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stat(String);

impl Stat {
    /// That of the process with this number, if there is one.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        Self::read(Path::new(&format!("/proc/{pid}/stat")))
    }

    /// What a file of this form says. `None` where it cannot be read, as when the process is gone.
    pub(crate) fn read(file: &Path) -> Option<Self> {
        std::fs::read(file).ok().map(|text| Self::parse(&text))
    }

    fn parse(text: &[u8]) -> Self {
        let after = text.iter().rposition(|byte| *byte == b')').and_then(|at| text.get(at + 1..));
        Self(after.map(|fields| String::from_utf8_lossy(fields).into_owned()).unwrap_or_default())
    }

    /// A field, counted from the one after the name.
    fn field(&self, number: usize) -> Option<&str> {
        self.0.split_ascii_whitespace().nth(number)
    }

    /// Whether it has ended, and is perhaps not collected yet.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.field(0), Some("Z" | "X" | "x"))
    }

    /// Whether it can still run. What cannot be made out is not known to be stopped.
    pub(crate) fn can_run(&self) -> bool {
        !self.is_dead() && !matches!(self.field(0), Some("T" | "t"))
    }

    /// Its parent.
    pub(crate) fn parent(&self) -> Option<Pid> {
        self.field(1)?.parse().ok().map(Pid::from_raw)
    }

    /// When it was started, in the kernel's ticks: with its number, this names it.
    pub(crate) fn start(&self) -> Option<u64> {
        self.field(19)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pass_for_a_state() {
        // The line; whether it can run; whether it is dead; its parent.
        let cases: [(&[u8], bool, bool, Option<i32>); 8] = [
            (b"7 (sh) R 1 7 7", true, false, Some(1)),
            (b"7 (dd) D 2 7 7", true, false, Some(2)),
            (b"7 (a) T 3) S 1 7 7", true, false, Some(1)),
            (b"7 (R) S) T 1 7 7", false, false, Some(1)),
            (b"7 (x) Z 1 7 7", false, true, Some(1)),
            (b"7 (x) Z 3) S 1 7 7", true, false, Some(1)),
            (b"7 (\xff) Z 3) X 1 7 7", false, true, Some(1)),
            (b"", true, false, None),
        ];
        for (text, can_run, dead, parent) in cases {
            let stat = Stat::parse(text);
            let found = (stat.can_run(), stat.is_dead(), stat.parent().map(Pid::as_raw));
            assert_eq!(found, (can_run, dead, parent), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn own_process_is_made_out() {
        let own = Stat::of(Pid::this()).unwrap();
        assert_eq!(own.parent(), Some(Pid::parent()));
        assert!(own.can_run() && !own.is_dead() && own.start().is_some_and(|start| start > 0));
        assert_eq!(Stat::of(Pid::from_raw(i32::MAX)), None);
    }
}
