//! Receipts, found by what was judged.
//!
//! The name of a file is the hash of the key in its canonical form, so equal keys find each other whatever order their
//! JSON was written in. The file carries a hash of the receipt: one that does not fit, or whose key is another, is absent,
//! with a warning. A receipt is never believed by halves, because a pass lets code through.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::layout::StateDir;
use super::{Error, Warning, atomic, json, listing};
use crate::model::TreeId;
use crate::model::receipt::{Receipt, ReceiptKey};

/// The newest version of receipts known here.
pub const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Sealed {
    sha256: String,
    receipt: Value,
}

/// The hash that a receipt with this key is found by.
pub fn key_hash(key: &ReceiptKey) -> Result<String, Error> {
    let value = serde_json::to_value(key).map_err(|source| Error::Encode { path: "receipt key".into(), source })?;
    Ok(hash(&value))
}

/// Keeps a receipt, replacing an earlier one for the same key. Gives the hash it is found by.
pub fn store(state: &StateDir, receipt: &Receipt) -> Result<String, Error> {
    let key = key_hash(&receipt.key)?;
    let path = state.receipt(&key);
    let value = serde_json::to_value(receipt).map_err(|source| Error::Encode { path: path.clone(), source })?;
    atomic::write_json(&path, &Sealed { sha256: hash(&value), receipt: value })?;
    Ok(key)
}

/// The receipt for exactly this key; absent, with a warning, if what lies there cannot be believed.
pub fn load(state: &StateDir, key: &ReceiptKey) -> Result<(Option<Receipt>, Option<Warning>), Error> {
    let path = state.receipt(&key_hash(key)?);
    let Some(bytes) = json::load_bytes(&path)? else { return Ok((None, None)) };
    match open(&bytes, key) {
        Ok(receipt) => Ok((Some(receipt), None)),
        Err(why) => Ok((None, Some(Warning::new(&path, format!("is not used as a receipt: {why}"))))),
    }
}

/// The newest receipt for this tree and command in whatever environment. Only for saying what differs: what cannot be
/// believed is passed over in silence.
pub fn newest(state: &StateDir, tree: &TreeId, command: &[String]) -> Option<Receipt> {
    let folders = std::fs::read_dir(state.receipts()).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten());
    files
        .filter_map(|file| unseal(&json::load_bytes(&file.path()).ok()??).ok())
        .filter(|receipt| receipt.key.tree == *tree && receipt.key.command == command)
        .max_by_key(|receipt| receipt.timestamp)
}

/// Removes the receipts that `keep` does not want, by the hashes they are found by. Gives how many.
pub fn prune(state: &StateDir, keep: impl Fn(&str) -> bool) -> Result<u64, Error> {
    let mut pruned = 0;
    for folder in listing::entries(&state.receipts())?.unwrap_or_default() {
        // What is no folder is none of ours.
        if !folder.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        for file in listing::entries(&folder.path())?.unwrap_or_default() {
            let name = file.file_name();
            let key = name.to_str().and_then(|name| name.strip_suffix(".json"));
            if key.is_some_and(|key| !keep(key)) {
                atomic::remove_file(&file.path())?;
                pruned += 1;
            }
        }
    }
    Ok(pruned)
}

fn open(bytes: &[u8], key: &ReceiptKey) -> Result<Receipt, String> {
    let receipt = unseal(bytes)?;
    if receipt.key == *key { Ok(receipt) } else { Err("it is for something else".to_owned()) }
}

fn unseal(bytes: &[u8]) -> Result<Receipt, String> {
    let sealed: Sealed = serde_json::from_slice(bytes).map_err(|error| format!("it is damaged ({error})"))?;
    if hash(&sealed.receipt) != sealed.sha256 {
        return Err("it was changed since it was written".to_owned());
    }
    if let Some(v) = sealed.receipt.get("v").and_then(Value::as_u64).filter(|v| *v > u64::from(VERSION)) {
        return Err(format!("its format {v} is newer than this version"));
    }
    serde_json::from_value(sealed.receipt).map_err(|error| format!("it is damaged ({error})"))
}

fn hash(value: &Value) -> String {
    let mut text = String::new();
    canonical(value, &mut text);
    hex::encode(Sha256::digest(text.as_bytes()))
}

/// JSON without spaces and with sorted keys. Own code, because the order of a JSON map depends on a feature that any
/// other crate can switch on.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (at, (name, field)) in fields.into_iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                // Writing to a string cannot fail.
                let _ = write!(out, "{comma}{}:", Value::from(name.as_str()));
                canonical(field, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                canonical(item, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let _ = write!(out, "{value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt() -> Receipt {
        serde_json::from_value(serde_json::json!({
            "v": 1,
            "key": {"tree": "a".repeat(40), "command": ["cargo", "test"], "environment": "e1"},
            "environmentParts": {}, "scope": "parent",
            "result": {"success": false, "status": "TEST_FAILURE"},
            "verdict": "fail", "logSha256": "", "changedTrackedPaths": [],
            "timestamp": "2024-01-01T00:00:00Z", "durationMs": 1
        }))
        .unwrap()
    }

    fn state(folder: &tempfile::TempDir) -> StateDir {
        StateDir::in_common_dir(folder.path())
    }

    #[test]
    fn found_by_exactly_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let (state, receipt) = (state(&folder), receipt());
        assert_eq!(load(&state, &receipt.key).unwrap(), (None, None));
        let key = store(&state, &receipt).unwrap();
        assert!(state.receipt(&key).ends_with(format!("receipts/{}/{key}.json", &key[..2])));
        assert_eq!(load(&state, &receipt.key).unwrap(), (Some(receipt.clone()), None));
        let other_tree = ReceiptKey { tree: "b".repeat(40).parse().unwrap(), ..receipt.key.clone() };
        let other_command = ReceiptKey { command: vec!["cargo test".to_owned()], ..receipt.key.clone() };
        let other_environment = ReceiptKey { environment: "e2".to_owned(), ..receipt.key.clone() };
        for other in [other_tree, other_command, other_environment] {
            assert_eq!(load(&state, &other).unwrap(), (None, None), "{other:?}");
        }
    }

    #[test]
    fn the_newest_of_a_tree_and_a_command_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (state, first) = (state(&folder), receipt());
        let newest = |command: &[String]| newest(&state, &first.key.tree, command);
        assert_eq!(newest(&first.key.command), None);
        let later = Receipt {
            key: ReceiptKey { environment: "e2".to_owned(), ..first.key.clone() },
            timestamp: "2024-01-02T00:00:00Z".parse().unwrap(),
            ..first.clone()
        };
        for receipt in [&later, &first] {
            store(&state, receipt).unwrap();
        }
        assert_eq!(newest(&first.key.command), Some(later.clone()));
        assert_eq!(newest(&["cargo".to_owned()]), None);
        atomic::write(&state.receipt(&key_hash(&later.key).unwrap()), b"{}").unwrap();
        assert_eq!(newest(&first.key.command), Some(first.clone()));
    }

    #[test]
    fn the_key_does_not_hang_on_the_order_of_fields() {
        let one: Value = serde_json::from_str(r#"{"b": [1, {"y": null, "x": "\u00e4\n"}], "a": true}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"a":true,"b":[1,{"x":"ä\n","y":null}]}"#).unwrap();
        let mut text = String::new();
        canonical(&one, &mut text);
        assert_eq!(text, r#"{"a":true,"b":[1,{"x":"ä\n","y":null}]}"#);
        assert_eq!(hash(&one), hash(&other));
    }

    #[test]
    fn a_damaged_or_foreign_receipt_is_absent() {
        let folder = tempfile::tempdir().unwrap();
        let (state, receipt) = (state(&folder), receipt());
        let path = state.receipt(&store(&state, &receipt).unwrap());
        let good = std::fs::read(&path).unwrap();
        let absent = |bytes: &[u8], why: &str| {
            atomic::write(&path, bytes).unwrap();
            let (found, warning) = load(&state, &receipt.key).unwrap();
            assert_eq!(found, None, "{why}");
            assert!(warning.unwrap().to_string().contains(why), "{why}");
        };
        let text = String::from_utf8(good.clone()).unwrap();
        absent(text.replace("\"fail\"", "\"pass\"").as_bytes(), "changed since");
        absent(&good[..good.len() / 2], "damaged");
        absent(b"", "damaged");
        // Each single flipped bit is noticed, or changes nothing but the layout.
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 0x04;
            if let Ok(found) = open(&bytes, &receipt.key) {
                assert_eq!(found, receipt, "byte {at}");
            }
        }
        let seal = |value: Value| serde_json::to_vec(&Sealed { sha256: hash(&value), receipt: value }).unwrap();
        let mut newer = serde_json::to_value(&receipt).unwrap();
        newer["v"] = 2.into();
        absent(&seal(newer), "newer");
        let mut foreign = serde_json::to_value(&receipt).unwrap();
        foreign["key"]["environment"] = "e2".into();
        absent(&seal(foreign), "something else");
        // A field of a later version with the same number is no reason to doubt.
        let mut grown = serde_json::to_value(&receipt).unwrap();
        grown["later"] = 1.into();
        assert_eq!(open(&seal(grown), &receipt.key), Ok(receipt.clone()));
    }
}
