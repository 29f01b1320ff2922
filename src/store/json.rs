//! Reading back what was written as JSON.

use std::io::ErrorKind;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::{Error, Warning};

/// The file's bytes; `None` if there is no such file.
pub fn load_bytes(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

/// The file's value; `None` if there is no such file.
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let Some(bytes) = load_bytes(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| {
        Error::damaged(path, error.to_string(), "put back the file as it was written, or remove the run")
    })
}

/// The value of a derived file, with a warning instead of an error where it is damaged: it can be made again.
pub fn load_derived<T: DeserializeOwned>(path: &Path) -> Result<(Option<T>, Option<Warning>), Error> {
    let Some(bytes) = load_bytes(path)? else { return Ok((None, None)) };
    match serde_json::from_slice(&bytes) {
        Ok(value) => Ok((Some(value), None)),
        Err(error) => Ok((None, Some(Warning::new(path, format!("is damaged and was not used: {error}"))))),
    }
}
