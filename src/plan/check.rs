//! What can only be seen with all agents in view: who waits for whom, and whose contracts meet.

use toml::Spanned;

use crate::model::RepoPath;
use crate::model::plan::{Contract, Plan};

use super::contract::{CompiledContract, ContractError};
use super::file::{Draft, name_hint};
use super::finding::{Code, Finding, Severity};
use super::graph::Graph;
use super::overlap::Budget;
use super::reader::Reader;
use super::value::shown;

pub(super) fn agents(reader: &mut Reader<'_>, drafts: &[Draft]) {
    let graph = prerequisites(reader, drafts);
    cycles(reader, drafts, &graph);
    for draft in drafts {
        if draft.owns.is_empty() && draft.shares.is_empty() {
            nothing_owned(reader, draft);
        }
    }
    overlaps(reader, drafts);
}

/// An empty list is as good as none: such an agent could never complete. A list that is absent, or of which every glob is
/// wrong, was told of already.
fn nothing_owned(reader: &mut Reader<'_>, draft: &Draft) {
    if draft.owns_is_empty_list {
        let message = format!("{} may change nothing at all", shown(&draft.key));
        let help = "list at least one glob under `owns` or `shares`".to_owned();
        reader.error(Code::MissingOwns, draft.span.clone(), message, Some(help));
    }
}

/// Checks each `after`, and gives the graph of those that are right.
fn prerequisites(reader: &mut Reader<'_>, drafts: &[Draft]) -> Graph {
    let mut after = vec![Vec::new(); drafts.len()];
    for (at, draft) in drafts.iter().enumerate() {
        for name in &draft.after {
            let (who, prerequisite) = (shown(&draft.key), name.get_ref());
            let Some(other) = drafts.iter().position(|other| other.key == *prerequisite) else {
                let known = drafts.iter().map(|other| other.key.as_str()).filter(|other| *other != draft.key);
                let message = format!("{who} comes after {}, which is no agent of this plan", shown(prerequisite));
                let help = drafts.get(1).map(|_| name_hint(prerequisite, known));
                reader.error(Code::UnknownAgent, name.span(), message, help);
                continue;
            };
            if other == at {
                reader.error(Code::AfterItself, name.span(), format!("{who} cannot come after itself"), None);
            } else if after[at].contains(&other) {
                let message = format!("{who} comes after {} twice", shown(prerequisite));
                reader.error(Code::DuplicateAfter, name.span(), message, None);
            } else {
                after[at].push(other);
            }
        }
    }
    Graph::new(after)
}

fn cycles(reader: &mut Reader<'_>, drafts: &[Draft], graph: &Graph) {
    for members in graph.cycles() {
        let names: Vec<_> = members.iter().chain(members.first()).map(|member| shown(&drafts[*member].key)).collect();
        let draft = &drafts[members[0]];
        let second = &drafts[members.get(1).copied().unwrap_or(members[0])].key;
        let span = draft.after.iter().find(|name| name.get_ref() == second).map_or(draft.span.clone(), Spanned::span);
        let message = format!("these agents wait for each other: {}", names.join(" after "));
        reader.error(Code::Cycle, span, message, None);
    }
}

fn overlaps(reader: &mut Reader<'_>, drafts: &[Draft]) {
    let text = |globs: &[Spanned<String>]| globs.iter().map(|glob| glob.get_ref().clone()).collect();
    // The globs in a draft have been read before, so none is left out here.
    let compiled: Vec<_> = drafts
        .iter()
        .map(|draft| CompiledContract::new(&Contract { owns: text(&draft.owns), shares: text(&draft.shares) }))
        .map(Result::unwrap_or_default)
        .collect();
    let mut budget = Budget::default();
    for (later, mine) in drafts.iter().enumerate() {
        for (earlier, theirs) in drafts[..later].iter().enumerate() {
            let Ok(found) = compiled[earlier].overlaps(&compiled[later], &mut budget) else {
                let (first, second) = (shown(&theirs.key), shown(&mine.key));
                let message = format!("the contracts of {first} and {second} are too complex to compare");
                let help = "use fewer or simpler globs".to_owned();
                reader.error(Code::TooComplex, mine.span.clone(), message, Some(help));
                return;
            };
            for overlap in found {
                let (first, second) = (glob(theirs, overlap.first), glob(mine, overlap.second));
                let message = format!(
                    "{} and {} may both change {}: {} overlaps with {} on line {}",
                    shown(&theirs.key),
                    shown(&mine.key),
                    shown(&overlap.path.to_string()),
                    shown(second.get_ref()),
                    shown(first.get_ref()),
                    reader.line(&first.span()),
                );
                let help = "make the globs disjoint, or list the common paths under `shares` of both".to_owned();
                reader.error(Code::Overlap, second.span(), message, Some(help));
            }
        }
    }
}

fn glob(draft: &Draft, at: usize) -> &Spanned<String> {
    let (owns, shares) = (&draft.owns, &draft.shares);
    if at < owns.len() { &owns[at] } else { &shares[at - owns.len()] }
}

/// Warns of each contract that no path of the base falls under, and of each folder to start in that has none. That may be
/// meant, when an agent is to make new files, or begins with what others made.
pub fn check_against_tree(
    plan: &Plan,
    paths: impl IntoIterator<Item = RepoPath>,
) -> Result<Vec<Finding>, ContractError> {
    let mut open = Vec::new();
    for agent in &plan.agents {
        open.push((agent, CompiledContract::new(&agent.contract)?));
    }
    let of_agents = plan.agents.iter().map(|agent| (shown(agent.name.as_str()), &agent.workdir));
    let of_verifier = plan.verify.iter().map(|verify| ("the verifier".to_owned(), &verify.workdir));
    let folders = of_agents.chain(of_verifier).filter_map(|(who, workdir)| Some((who, workdir.as_ref()?)));
    let mut empty: Vec<_> = folders.map(|(who, workdir)| (who, workdir, RepoPath::from(workdir.as_str()))).collect();
    for path in paths {
        if open.is_empty() && empty.is_empty() {
            break;
        }
        open.retain(|(_, contract)| contract.allows(&path) == super::Allowed::Outside);
        empty.retain(|(_, _, folder)| !path.is_below(folder));
    }
    let mut findings = Vec::new();
    for (agent, _) in open {
        let globs: Vec<_> = agent.contract.owns.iter().map(|glob| shown(glob)).collect();
        let message = format!("no file falls under what {} owns: {}", shown(agent.name.as_str()), globs.join(", "));
        let finding = Finding::new(Severity::Warning, Code::ContractMatchesNothing, message);
        findings.push(finding.with_help("check the spelling, unless the agent is to make new files"));
    }
    for (who, workdir, _) in empty {
        let message = format!("{who} starts in {}, which is no folder of the repository", shown(workdir));
        let finding = Finding::new(Severity::Warning, Code::NoWorkdir, message);
        findings.push(
            finding.with_help("check the spelling, unless it will be made before: by `setup`, or by another agent"),
        );
    }
    Ok(findings)
}
