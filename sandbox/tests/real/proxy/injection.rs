//! Secrets that whoever asks never holds.

use super::scene::{Names, Scene, head, rules};
use crate::bench::soon;
use sandbox::proxy::{Bounds, Decision, Injection, Injections};

#[tokio::test]
async fn placeholder() {
    let _ = (Names::default(), rules(&[], &[], 1), Bounds::default(), Decision::Allowed);
    let _ = (Scene::new, Injection::new, Injections::load);
    soon(async {}).await;
    let _ = head(&mut &b""[..]).await;
}
