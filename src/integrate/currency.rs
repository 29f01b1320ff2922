//! How a head stands to the tip it is to be merged onto, and when two observations of that are the same one.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::model::event::Currency;
use crate::model::{CommitId, RefName};

/// How a head stands: `contains_tip` says whether the tip is in its history, `merges` whether merging is clean. Where
/// either is not known, neither is the currency.
pub fn currency(contains_tip: Option<bool>, merges: Option<bool>) -> Currency {
    match (contains_tip, merges) {
        (Some(true), Some(true)) => Currency::Current,
        (Some(false), Some(true)) => Currency::Behind,
        (_, Some(false)) => Currency::Dirty,
        (None, Some(true)) | (_, None) => Currency::Unknown,
    }
}

/// All that an observation is made of. No time, no path of an agent, no order.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// The repository's common directory, without symbolic links.
    pub common_dir: &'a Path,
    /// The branch the result is meant for, if any.
    pub target: Option<&'a RefName>,
    /// The exact commit that is merged onto.
    pub tip: &'a CommitId,
    /// What is merged.
    pub head: Option<&'a CommitId>,
    /// How it stands.
    pub status: Currency,
    /// Whose work it builds on, in plan order: `independent`, or the names.
    pub route: &'a str,
}

/// A hash over the whole observation: equal for equal ones, and another if any part is.
pub fn observation_key(observation: &Observation<'_>) -> String {
    let status = match observation.status {
        Currency::Current => "CURRENT",
        Currency::Behind => "BEHIND",
        Currency::Dirty => "DIRTY",
        Currency::Unknown => "UNKNOWN",
    };
    let fields: [&[u8]; 6] = [
        observation.common_dir.as_os_str().as_bytes(),
        observation.target.map_or("", RefName::as_str).as_bytes(),
        observation.tip.as_str().as_bytes(),
        observation.head.map_or("", CommitId::as_str).as_bytes(),
        status.as_bytes(),
        observation.route.as_bytes(),
    ];
    let mut hash = Sha256::new();
    for field in fields {
        hash.update((field.len() as u64).to_be_bytes());
        hash.update(field);
    }
    hex::encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_never_clean() {
        let table = [
            (Some(true), Some(true), Currency::Current),
            (Some(false), Some(true), Currency::Behind),
            (None, Some(true), Currency::Unknown),
            (Some(true), Some(false), Currency::Dirty),
            (Some(false), Some(false), Currency::Dirty),
            (None, Some(false), Currency::Dirty),
            (Some(true), None, Currency::Unknown),
            (Some(false), None, Currency::Unknown),
            (None, None, Currency::Unknown),
        ];
        for (contains_tip, merges, expected) in table {
            assert_eq!(currency(contains_tip, merges), expected, "{contains_tip:?} {merges:?}");
        }
    }

    #[test]
    fn every_field_makes_another_key() {
        let commit = |digit: &str| digit.repeat(40).parse::<CommitId>().unwrap();
        let (one, two) = (commit("1"), commit("2"));
        let (main, next): (RefName, RefName) = ("refs/heads/main".parse().unwrap(), "refs/heads/next".parse().unwrap());
        let known = Observation {
            common_dir: Path::new("/r/.git"),
            target: Some(&main),
            tip: &one,
            head: Some(&two),
            status: Currency::Behind,
            route: "independent",
        };
        let key = observation_key(&known);
        assert_eq!(key, observation_key(&known.clone()));
        let others = [
            Observation { common_dir: Path::new("/s/.git"), ..known },
            Observation { target: Some(&next), ..known },
            Observation { target: None, ..known },
            Observation { tip: &two, ..known },
            Observation { head: Some(&one), ..known },
            Observation { head: None, ..known },
            Observation { status: Currency::Dirty, ..known },
            Observation { status: Currency::Current, ..known },
            Observation { status: Currency::Unknown, ..known },
            Observation { route: "schema", ..known },
        ];
        let mut keys: Vec<String> = others.iter().map(observation_key).collect();
        keys.push(key);
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 11);
    }
}
