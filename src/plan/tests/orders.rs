use proptest::prelude::*;

use crate::plan::{Graph, Preview, load};

#[test]
fn the_order_is_the_plans_where_after_leaves_a_choice() {
    // 0 after 3; 2 after 0 and 1; 4 free.
    let graph = Graph::new(vec![vec![3], vec![], vec![0, 1], vec![], vec![]]);
    assert_eq!(graph.order(), [1, 3, 0, 2, 4]);
    assert_eq!(graph.waves(), [vec![1, 3, 4], vec![0], vec![2]]);
    assert_eq!(graph.prerequisites(2), [1, 3, 0]);
    assert_eq!(graph.prerequisites(4), Vec::<usize>::new());
    assert_eq!(graph.dependents(3), [0, 2]);
    assert_eq!(graph.cycles(), Vec::<Vec<usize>>::new());
}

#[test]
fn cycles_name_their_members_in_order() {
    let graph = Graph::new(vec![vec![2], vec![0, 4], vec![3], vec![0], vec![4]]);
    assert_eq!(graph.cycles(), [vec![0, 2, 3], vec![4]]);
    assert!(graph.order().is_empty());
    // What merely comes after a cycle is no member of it.
    let graph = Graph::new(vec![vec![1], vec![2], vec![1]]);
    assert_eq!(graph.cycles(), [vec![1, 2]]);
    // Two knots, and a shortcut within one.
    let graph = Graph::new(vec![vec![1, 2], vec![2], vec![0], vec![4], vec![3]]);
    assert_eq!(graph.cycles(), [vec![0, 2], vec![3, 4]]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_agent_comes_after_its_prerequisites(after in (1..9_usize).prop_flat_map(|count| {
        proptest::collection::vec(proptest::collection::vec(0..count, 0..3), count)
    })) {
        let count = after.len();
        let graph = Graph::new(after.clone());
        let order = graph.order();
        for (place, agent) in order.iter().enumerate() {
            prop_assert!(after[*agent].iter().all(|before| order[..place].contains(before)));
        }
        prop_assert_eq!(order.len() == count, graph.cycles().is_empty());
        for cycle in graph.cycles() {
            for (at, member) in cycle.iter().enumerate() {
                prop_assert!(after[*member].contains(&cycle[(at + 1) % cycle.len()]));
            }
        }
        prop_assert_eq!(graph.waves().concat().len(), order.len());
    }
}

#[test]
fn a_preview_shows_order_contracts_and_commands() {
    let text = "
run.name = 'login'
[sandbox]
network = 'host'
env = ['KEY']
[agents.late]
owns = ['b/**']
after = ['early']
turns = [['x', 'two words'], ['y']]
sandbox.network = 'none'
[agents.early]
owns = ['a/**']
shares = ['lock']
run = ['x']
[agents.free]
owns = ['c/**']
shares = ['lock']
run = ['x']
";
    let (plan, _) = load("p.toml", text).unwrap();
    let preview = Preview::new(&plan);
    let names: Vec<_> = preview.agents.iter().map(|agent| (agent.name.as_str(), agent.wave)).collect();
    assert_eq!(names, [("early", 1), ("late", 2), ("free", 1)]);
    let json = serde_json::to_value(&preview).unwrap();
    assert_eq!(json["waves"], serde_json::json!([["early", "free"], ["late"]]));
    assert_eq!(json["agents"][1]["turns"][0]["line"], "x 'two words'");
    assert_eq!(json["agents"][1]["prerequisites"], serde_json::json!(["early"]));
    assert_eq!(json["agents"][1]["sandbox"]["network"], "none");
    assert_eq!(json["agents"][0]["sandbox"]["network"], "host");
    assert_eq!(json["agents"][0]["shares"], serde_json::json!(["lock"]));
    assert_eq!(json["verify"], serde_json::Value::Null);
}
