//! Diagnostics for developers: off, unless `SANDBOX_LOG` asks for them.

use tracing_subscriber::EnvFilter;

use super::printer::{self, Printer};
use super::settings::Settings;

/// Turns them on if they are asked for.
pub(super) fn start(settings: &Settings, printer: &mut Printer) {
    let Some(wanted) = &settings.log else { return };
    match EnvFilter::try_new(wanted) {
        Ok(filter) => {
            let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(printer::diagnostics);
            if subscriber.with_ansi(settings.err_look.color).try_init().is_err() {
                printer.warn("diagnostics are on already");
            }
        }
        Err(error) => printer.warn(&format!("SANDBOX_LOG=`{wanted}` is not understood: {error}")),
    }
}
