//! Every way three runs can stand, under every kind of limit; and by name, what is said of each.

use super::*;

fn agent(bytes: u64) -> WorktreeFacts {
    tree(Owner::Agent("one".parse().unwrap()), bytes)
}

fn tree(owner: Owner, bytes: u64) -> WorktreeFacts {
    WorktreeFacts { owner, path: "/w/x".into(), bytes }
}

fn card(open: bool) -> Owner {
    Owner::Card { id: "c1a2b3c4d5e6".parse().unwrap(), open }
}

fn run(number: u64, standing: Standing, hours: i64) -> RunFacts {
    RunFacts {
        run: format!("login-{number}").parse().unwrap(),
        standing,
        idle: SignedDuration::from_hours(hours),
        worktrees: vec![agent(100)],
        record: None,
    }
}

fn standings() -> [Standing; 4] {
    [Standing::AtWork, Standing::Unreadable("torn".to_owned()), Standing::Incomplete, Standing::Complete]
}

fn all_limits() -> Vec<Limits> {
    let mut all = Vec::new();
    for keep in [None, Some(0), Some(1), Some(2), Some(9)] {
        for hours in [None, Some(0), Some(25), Some(99)] {
            for max_bytes in [None, Some(0), Some(100), Some(250), Some(1 << 40)] {
                all.push(Limits { older_than: hours.map(SignedDuration::from_hours), keep, max_bytes });
            }
        }
    }
    all
}

/// What goes of a run, in bytes.
fn freed(facts: &RunFacts, plan: &RunPlan) -> u64 {
    let trees = facts.worktrees.iter().map(|tree| tree.bytes).zip(&plan.worktrees);
    let record = facts.record.iter().map(|record| record.bytes).zip(&plan.record);
    trees.chain(record).filter(|(_, (action, _))| *action == Action::Remove).map(|(bytes, _)| bytes).sum()
}

/// What must hold of every plan.
fn check(facts: &[RunFacts], limits: &Limits, named: bool) {
    let plans = plan(facts, limits, named);
    let case = format!("{facts:#?} {limits:?} named {named}: {plans:#?}");
    assert_eq!(plans.len(), facts.len(), "{case}");
    for ((at, facts), plan) in (0..).zip(facts).zip(&plans) {
        let goes = |verdict: &Verdict| verdict.0 == Action::Remove;
        let goes_any = plan.worktrees.iter().chain(&plan.record).any(goes);
        match facts.standing {
            Standing::AtWork | Standing::Unreadable(_) => assert!(!goes_any, "{case}"),
            Standing::Incomplete | Standing::Complete => {}
        }
        for (tree, verdict) in facts.worktrees.iter().zip(&plan.worktrees) {
            match &tree.owner {
                Owner::Card { open: true, .. } | Owner::Unknown(_) => assert!(!goes(verdict), "{case}"),
                Owner::Agent(_) | Owner::Verify | Owner::Resolver | Owner::Hook | Owner::Card { open: false, .. } => {}
            }
        }
        let of_agents = facts.worktrees.iter().zip(&plan.worktrees);
        let mut of_agents =
            of_agents.filter(|(tree, _)| matches!(tree.owner, Owner::Agent(_))).map(|(_, verdict)| verdict);
        let is_protected = limits.keep.is_some_and(|keep| at < keep);
        match (&facts.standing, named) {
            (Standing::Incomplete | Standing::Complete, true) => assert!(of_agents.all(goes), "{case}"),
            (Standing::Incomplete, false) => assert!(!of_agents.any(goes), "{case}"),
            (Standing::Complete, false) if is_protected => assert!(!of_agents.any(goes), "{case}"),
            (Standing::Complete, false) => {
                let is_old = limits.older_than.is_some_and(|age| facts.idle >= age);
                match (limits.older_than, limits.max_bytes) {
                    (None, None) => assert!(of_agents.all(goes), "{case}"),
                    (Some(_), None) => assert!(of_agents.all(|verdict| goes(verdict) == is_old), "{case}"),
                    (_, Some(_)) => assert!(!is_old || of_agents.all(goes), "{case}"),
                }
            }
            (Standing::AtWork | Standing::Unreadable(_), _) => {}
        }
        if let (Some(record), Some(verdict)) = (&facts.record, &plan.record)
            && goes(verdict)
        {
            assert!(record.pin.is_none() && plan.worktrees.iter().all(goes), "{case}");
        }
    }
    let Some(most) = limits.max_bytes.filter(|_| !named) else { return };
    let left = facts.iter().zip(&plans).map(|(run, plan)| run.bytes() - freed(run, plan)).sum::<u64>();
    let over = |plan: &RunPlan| {
        plan.worktrees.iter().chain(&plan.record).any(|(_, reason)| matches!(reason, Reason::OverBudget(_)))
    };
    // Enough goes, unless nothing more may; and no more than enough.
    let within = |plan: &RunPlan| plan.worktrees.iter().any(|(_, reason)| *reason == Reason::Within);
    assert!(left <= most || !plans.iter().any(within), "{case}");
    let last = facts.iter().zip(&plans).filter(|(_, plan)| over(plan)).min_by_key(|(run, _)| run.idle);
    if let Some((run, plan)) = last {
        assert!(left + freed(run, plan) > most, "{case}");
    }
}

#[test]
fn nothing_pinned_goes_and_no_more_than_the_limits_say() {
    let mut cases = 0;
    for first in standings() {
        for second in standings() {
            for third in standings() {
                for record in [None, Some(None), Some(Some(Pin::NotLanded))] {
                    let mut facts = [run(3, first.clone(), 10), run(2, second.clone(), 30), run(1, third.clone(), 50)];
                    for run in &mut facts {
                        run.record = record.clone().map(|pin| RecordFacts { bytes: 10, pin });
                    }
                    facts[1].worktrees.extend([
                        tree(Owner::Verify, 5),
                        tree(Owner::Hook, 6),
                        tree(Owner::Resolver, 8),
                        tree(card(false), 7),
                    ]);
                    facts[2].worktrees.extend([tree(card(true), 3), tree(Owner::Unknown("who".to_owned()), 4)]);
                    for limits in all_limits() {
                        for named in [false, true] {
                            check(&facts, &limits, named);
                            cases += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(cases, 64 * 3 * 100 * 2);
}

#[test]
fn of_one_run_by_how_it_stands() {
    use Action::{Keep, Remove};
    let week = Limits { older_than: Some(SignedDuration::from_hours(7 * 24)), ..Limits::default() };
    let keep = |number| Limits { keep: Some(number), ..Limits::default() };
    for (standing, limits, named, action, reason) in [
        (Standing::Complete, Limits::default(), false, Remove, "the run is complete"),
        (Standing::Incomplete, Limits::default(), true, Remove, "you named the run"),
        (Standing::AtWork, Limits::default(), true, Keep, "the run is at work"),
        (Standing::Unreadable("torn".to_owned()), week, false, Keep, "it cannot be told how the run stands: torn"),
        (
            Standing::Incomplete,
            week,
            false,
            Keep,
            "the run is not complete: name it, `sandbox clean login-1`, to remove it all the same",
        ),
        (Standing::Complete, keep(1), false, Keep, "it is the newest run"),
        (Standing::Complete, keep(3), false, Keep, "it is one of the newest 3 runs"),
        (Standing::Complete, keep(0), false, Remove, "the run is complete"),
        (Standing::Complete, week, false, Remove, "nothing has happened in the run for 10 days"),
        (
            Standing::Complete,
            Limits { max_bytes: Some(99), ..Limits::default() },
            false,
            Remove,
            "more than 99 bytes would be kept",
        ),
        (
            Standing::Complete,
            Limits { max_bytes: Some(100), ..Limits::default() },
            false,
            Keep,
            "it is neither as old nor as large as to go",
        ),
    ] {
        let facts = [run(1, standing, 240)];
        let plans = plan(&facts, &limits, named);
        let (found, told) = &plans[0].worktrees[0];
        assert_eq!((*found, told.to_string().as_str()), (action, reason), "{facts:?} {limits:?}");
    }
}

#[test]
fn the_longest_idle_go_first_and_what_cannot_go_makes_no_room() {
    let mut facts = [
        run(4, Standing::Complete, 40),
        run(3, Standing::Complete, 10),
        run(2, Standing::Incomplete, 90),
        run(1, Standing::Complete, 20),
    ];
    facts[3].worktrees.push(tree(card(true), 1000));
    let gone = |most: u64, facts: &[RunFacts]| -> Vec<u64> {
        let plans = plan(facts, &Limits { max_bytes: Some(most), ..Limits::default() }, false);
        let goes = plans.iter().zip(facts).filter(|(plan, _)| plan.worktrees[0].0 == Action::Remove);
        goes.map(|(_, facts)| facts.run.number()).collect()
    };
    assert_eq!(gone(1400, &facts), Vec::<u64>::new());
    assert_eq!(gone(1399, &facts), [4]);
    assert_eq!(gone(1299, &facts), [4, 1]);
    assert_eq!(gone(1199, &facts), [4, 3, 1]);
    assert_eq!(gone(0, &facts), [4, 3, 1], "the rest is pinned");
}

#[test]
fn what_keeps_a_record_is_said() {
    let name = |name: &str| name.parse::<RefName>().unwrap();
    let commit: CommitId = "a".repeat(40).parse().unwrap();
    for (pin, words) in [
        (Pin::CutShort, "`sandbox resume` goes on"),
        (Pin::Landing, "`sandbox resume` finds out"),
        (Pin::Cards(1), "a card waits"),
        (Pin::Cards(2), "2 cards wait"),
        (Pin::Unmerged(vec!["a".parse().unwrap(), "b".parse().unwrap()]), "work of `a`, `b` is not part"),
        (Pin::NotLanded, "was not landed"),
        (Pin::NotReachable(commit), "what landed, aaaaaaaaaa, is in none of your branches"),
        (Pin::Unknown(name("refs/heads/sandbox/login-1/a")), "`sandbox/login-1/a` holds"),
        (Pin::CheckedOut(name("refs/heads/sandbox/login-1/a")), "`sandbox/login-1/a` is checked out"),
    ] {
        let mut facts = [run(1, Standing::Complete, 1)];
        facts[0].record = Some(RecordFacts { bytes: 1, pin: Some(pin) });
        let (action, reason) = plan(&facts, &Limits::default(), true)[0].record.clone().unwrap();
        assert_eq!(action, Action::Keep);
        assert!(reason.to_string().contains(words), "{reason}");
    }
}
