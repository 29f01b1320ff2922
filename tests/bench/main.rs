//! What the program adds to what git itself needs, measured in one go with git itself on the same repository.
//!
//! Prints a table in Markdown. `BENCH_FILES` names other sizes of repository than the usual ones, `BENCH_ROUNDS` another
//! number of rounds. Each figure is the median of its rounds.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "this measures, for people to read"
)]

mod figures;
mod scene;
mod table;

use scene::Scene;
use table::Table;

/// The sizes of repository, in files.
const SIZES: &str = "1000,10000,50000";

#[tokio::main]
async fn main() {
    let sizes = std::env::var("BENCH_FILES").unwrap_or_else(|_| SIZES.to_owned());
    let rounds = std::env::var("BENCH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(5);
    let mut table = Table::default();
    for (at, files) in sizes.split(',').map(|size| size.trim().parse::<usize>().unwrap()).enumerate() {
        let scene = Scene::new(files).await;
        if at == 0 {
            figures::boxes(&scene, rounds * 6, &mut table).await;
            figures::coordinator(&scene, &mut table);
        }
        figures::agent(&scene, rounds, &mut table).await;
        figures::merging(&scene, &mut table);
    }
    println!("{}", table.render());
}
