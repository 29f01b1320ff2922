//! The kinds of conflict, each as a base and two sides. The criss-cross history, the last of them, has more than one base and
//! is a test of its own.

use super::super::testing::{File, file, link};

/// One way in which two sides differ from a base, and the kinds of conflict; none means that they merge.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) base: Vec<File>,
    pub(crate) ours: Vec<File>,
    pub(crate) theirs: Vec<File>,
    pub(crate) kinds: &'static [&'static str],
}

fn case(
    name: &'static str,
    base: impl Into<Vec<File>>,
    ours: impl Into<Vec<File>>,
    theirs: impl Into<Vec<File>>,
    kinds: &'static [&'static str],
) -> Case {
    Case { name, base: base.into(), ours: ours.into(), theirs: theirs.into(), kinds }
}

/// Twenty lines, with some of them replaced.
pub(super) fn lines(replaced: &[(usize, &str)]) -> String {
    let line = |number: usize| {
        let other = replaced.iter().find(|(at, _)| *at == number);
        other.map_or_else(|| format!("line {number}\n"), |(_, text)| format!("{text}\n"))
    };
    (1..=20).map(line).collect()
}

fn gitlink(path: &'static str, digit: char) -> File {
    File(path, "160000", digit.to_string().repeat(40).into_bytes())
}

#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn cases() -> Vec<Case> {
    let whole = lines(&[]);
    let [first, last] = [lines(&[(1, "ours")]), lines(&[(20, "theirs")])];
    let keep = || file("keep", "kept\n");
    let attributes = |text: &str| file(".gitattributes", text);
    let six = |folder: [&'static str; 6]| {
        folder.map(|path| file(path, format!("{}\n{}", path.rsplit('/').next().unwrap_or(""), lines(&[]))))
    };
    let old = || six(["d/1", "d/2", "d/3", "d/4", "d/5", "d/6"]).to_vec();
    let moved = || six(["e/1", "e/2", "e/3", "e/4", "e/5", "e/6"]).to_vec();
    let split = || six(["x/1", "x/2", "x/3", "y/4", "y/5", "y/6"]).to_vec();
    let and = |mut files: Vec<File>, more: File| {
        files.push(more);
        files
    };
    vec![
        case("1 edits far apart", [file("f", &whole)], [file("f", &first)], [file("f", &last)], &[]),
        case(
            "2 the same line",
            [file("f", &whole)],
            [file("f", &first)],
            [file("f", lines(&[(1, "x")]))],
            &["contents"],
        ),
        case(
            "3 neighbouring lines",
            [file("f", &whole)],
            [file("f", lines(&[(5, "x")]))],
            [file("f", lines(&[(6, "y")]))],
            &["contents"],
        ),
        case("4 the same edit", [file("f", &whole)], [file("f", &first)], [file("f", &first)], &[]),
        case("5 both add, different", [keep()], [keep(), file("f", "a\n")], [keep(), file("f", "b\n")], &["contents"]),
        case("6 both add, same", [keep()], [keep(), file("f", "a\n")], [keep(), file("f", "a\n")], &[]),
        case(
            "7 both add, one longer",
            [keep()],
            [keep(), file("f", "a\n")],
            [keep(), file("f", "a\nb\n")],
            &["contents"],
        ),
        case(
            "8 modify and delete",
            [keep(), file("f", &whole)],
            [keep(), file("f", &first)],
            [keep()],
            &["modify/delete"],
        ),
        case("9 rename and modify", [file("f", &whole)], [file("g", &whole)], [file("f", &last)], &[]),
        case(
            "10 rename and delete",
            [keep(), file("f", &whole)],
            [keep(), file("g", &whole)],
            [keep()],
            &["rename/delete"],
        ),
        case("11 one name to two", [file("f", &whole)], [file("g", &whole)], [file("h", &whole)], &["rename/rename"]),
        case(
            "12 two names to one",
            [file("a", &whole), file("b", "other\n".repeat(20))],
            [file("c", &whole), file("b", "other\n".repeat(20))],
            [file("a", &whole), file("c", "other\n".repeat(20))],
            &["contents"],
        ),
        case(
            "13 rename and add",
            [file("a", &whole)],
            [file("c", &whole)],
            [file("a", &whole), file("c", "new\n")],
            &["contents"],
        ),
        case("14 same rename, edits far apart", [file("a", &whole)], [file("b", &first)], [file("b", &last)], &[]),
        case(
            "15 folder renamed, file added",
            old(),
            moved(),
            and(old(), file("d/new", "new\n")),
            &["directory rename suggested"],
        ),
        case(
            "16 folder split, file added",
            old(),
            split(),
            and(old(), file("d/new", "new\n")),
            &["directory rename unclear split"],
        ),
        case(
            "17 folder renamed onto a name",
            old(),
            and(moved(), file("e/new", "ours\n")),
            and(old(), file("d/new", "theirs\n")),
            &["contents", "directory rename suggested"],
        ),
        case(
            "18 file and folder",
            [keep()],
            [keep(), file("n", "file\n")],
            [keep(), file("n/x", "x\n")],
            &["file/directory"],
        ),
        case(
            "19 file became folder, other edits",
            [keep(), file("n", &whole)],
            [keep(), file("n/x", "x\n")],
            [keep(), file("n", &last)],
            &["file/directory", "modify/delete"],
        ),
        case(
            "20 submodule moved two ways",
            [keep(), gitlink("sub", '1')],
            [keep(), gitlink("sub", '2')],
            [keep(), gitlink("sub", '3')],
            &["contents", "submodule not initialized"],
        ),
        case(
            "21 executable and content",
            [file("f", &whole)],
            [File("f", "100755", whole.clone().into())],
            [file("f", &last)],
            &[],
        ),
        case(
            "22 link and file added",
            [keep()],
            [keep(), link("n", "keep")],
            [keep(), file("n", "file\n")],
            &["distinct modes"],
        ),
        case(
            "23 type change and edit",
            [keep(), file("n", &whole)],
            [keep(), link("n", "keep")],
            [keep(), file("n", &last)],
            &["distinct modes"],
        ),
        case("24 link moved two ways", [link("l", "a")], [link("l", "b")], [link("l", "c")], &["contents"]),
        case(
            "25 binary",
            [file("f", b"\0one")],
            [file("f", b"\0two")],
            [file("f", b"\0three")],
            &["binary", "contents"],
        ),
        case(
            "26 union, as the target says",
            [attributes("f merge=union\n"), file("f", &whole)],
            [attributes("f merge=union\n"), file("f", &first)],
            [attributes("f merge=union\n"), file("f", lines(&[(1, "x")]))],
            &[],
        ),
        case(
            "27 not to be merged, as the target says",
            [attributes("f -merge\n"), file("f", &whole)],
            [attributes("f -merge\n"), file("f", &first)],
            [attributes("f -merge\n"), file("f", &last)],
            &["binary", "contents"],
        ),
        case(
            "28 line ends on one side",
            [file("f", &whole)],
            [file("f", whole.replace('\n', "\r\n"))],
            [file("f", &last)],
            &["contents"],
        ),
        case(
            "29 rename and same line",
            [file("a", &whole)],
            [file("b", &first)],
            [file("a", lines(&[(1, "x")]))],
            &["contents"],
        ),
        case(
            "29b two names to one, and one of them in conflict",
            [file("a", &whole), file("b", "other\n".repeat(20))],
            [file("c", &first), file("b", "other\n".repeat(20))],
            [file("a", lines(&[(1, "x")])), file("c", "other\n".repeat(20))],
            &["contents", "rename involved in collision"],
        ),
        case("30 both delete", [keep(), file("f", "x\n")], [keep()], [keep()], &[]),
        case(
            "31 folder deleted, file added",
            [keep(), file("d/f", "x\n")],
            [keep()],
            [keep(), file("d/f", "x\n"), file("d/g", "y\n")],
            &[],
        ),
        case(
            "32 moved into a renamed folder",
            and(old(), file("loose", "loose\n".repeat(20))),
            and(moved(), file("loose", "loose\n".repeat(20))),
            and(old(), file("d/loose", "loose\n".repeat(20))),
            &["directory rename suggested"],
        ),
        case(
            "words of git in names",
            [keep()],
            [keep(), file("CONFLICT", "<<<<<<< a\n")],
            [keep(), file("CONFLICT (contents)", ">>>>>>>\n")],
            &[],
        ),
    ]
}
