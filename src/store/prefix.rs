//! Names cut short by people.

use super::Error;

/// The one of `names` that `text` is, or else is the beginning of.
pub fn pick<'a, T: AsRef<str>>(
    what: &'static str,
    names: impl IntoIterator<Item = &'a T>,
    text: &str,
) -> Result<&'a T, Error> {
    let names: Vec<&T> = names.into_iter().collect();
    if let Some(exact) = names.iter().find(|name| name.as_ref() == text) {
        return Ok(exact);
    }
    let fitting: Vec<&T> =
        names.iter().copied().filter(|name| !text.is_empty() && name.as_ref().starts_with(text)).collect();
    let shown = |some: &[&T]| some.iter().map(|name| name.as_ref().to_owned()).collect();
    match fitting.as_slice() {
        [one] => Ok(one),
        [] => Err(Error::NotFound { what, name: text.to_owned(), known: shown(&names[..names.len().min(10)]) }),
        several => Err(Error::Ambiguous { what, name: text.to_owned(), candidates: shown(several) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_must_be_unique() {
        let names = ["login-1", "login-12", "login-2", "docs-3"].map(str::to_owned);
        let found = |text: &str| pick("run", &names, text).map(String::as_str);
        assert_eq!(found("login-1").unwrap(), "login-1", "a whole name is no prefix");
        assert_eq!(found("login-12").unwrap(), "login-12");
        assert_eq!(found("d").unwrap(), "docs-3");
        assert!(
            matches!(found("login"), Err(Error::Ambiguous { candidates, .. }) if candidates == ["login-1", "login-12", "login-2"])
        );
        for none in ["", "x", "login-3", "ogin", "docs-33"] {
            assert!(matches!(found(none), Err(Error::NotFound { known, .. }) if known.len() == 4), "{none:?}");
        }
    }
}
