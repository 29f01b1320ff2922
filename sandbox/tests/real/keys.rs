//! Keys in the kernel.

use crate::bench::{Bench, plainly};

#[tokio::test]
async fn keys_of_the_session_stay_outside() {
    let bench = Bench::new().await;
    let said = plainly(&["keys", bench.root.to_str().unwrap()]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.first(), Some(&"ok ok secret"), "a child reads it: {said}");
    assert_eq!(lines.get(1), Some(&"failed ENOKEY: Required key not available"), "by the keyring: {said}");
    assert_eq!(lines.get(2), Some(&"failed EPERM: Operation not permitted"), "by the filter: {said}");
}
