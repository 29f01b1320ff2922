//! What agents say from inside their boxes: the way to the program, or why there is none.

use std::path::Path;

use super::error::{Error, ErrorKind};
use super::settings::Settings;
use crate::workspace::seen;

/// The socket that leads out of this box. `what` cannot be done without it, and `instead` is what can be.
pub(super) fn socket(settings: &Settings, what: &str, instead: [&str; 2]) -> Result<&'static Path, Error> {
    let [degraded, outside] = instead;
    if let Some(missing) = settings.degraded.as_deref() {
        let text = format!("{what} from inside: this box is without {missing}");
        return Err(Error::new(ErrorKind::Environment, text).hint(degraded));
    }
    let socket = Path::new(seen::TURN_SOCKET);
    if !socket.exists() {
        return Err(Error::new(ErrorKind::Usage, format!("{what} here: this is no agent's box")).hint(outside));
    }
    Ok(socket)
}
