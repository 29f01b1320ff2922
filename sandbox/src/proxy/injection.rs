//! Secrets that requests get on their way out.

use super::endpoint::{EndpointError, Host, Target};
use hyper::Method;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

/// The port of an upstream that names none.
const HTTPS: u16 = 443;

/// What the name of a field has in it by which a request can be authenticated, without its dashes and underscores: whoever
/// asks must not choose as whom. There is no list of such fields, so this rather takes out one too many.
const AUTHENTICATING: [&str; 9] =
    ["auth", "token", "secret", "credential", "cookie", "apikey", "accesskey", "subscriptionkey", "signature"];

/// Fields that speak for somebody on the way to a server, or change what a request is: the proxy is the first on the way.
const SPEAKING_FOR_OTHERS: [&str; 5] = ["forwarded", "realip", "via", "httpmethod", "methodoverride"];

/// Methods that ask for nothing else than the resource. An answer to `TRACE` has the request in it, the secret too, and there
/// are servers that answer others in the same way.
const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];

/// Fields that say how a message is framed or where it goes, and so cannot hold a secret.
const FRAMING: [HeaderName; 9] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::EXPECT,
    header::PROXY_AUTHORIZATION,
];

/// What is wrong with an injection.
#[derive(Debug, thiserror::Error)]
pub enum InjectionError {
    /// The header is no name of one.
    #[error("`{header}` is not the name of a header")]
    Header {
        /// What stands there.
        header: String,
    },
    /// The header is one that the proxy sets itself.
    #[error("`{header}` is a header that says how a message is sent, which cannot hold a secret")]
    Framing {
        /// The header.
        header: String,
    },
    /// The value cannot stand in a header. It is not shown.
    #[error("the value for the header `{header}` has characters that a header cannot have, such as a line break")]
    Value {
        /// The header.
        header: String,
    },
    /// There is nothing by which a server could prove who it is.
    #[error(
        "no trusted certificate authorities were found: install them (often the package `ca-certificates`), or name a file of them in SSL_CERT_FILE"
    )]
    NoAuthorities,
    /// TLS could not be set up.
    #[error("TLS could not be set up")]
    Tls(#[source] tokio_rustls::rustls::Error),
}

/// A host that gets a secret: `HOST`, or `HOST:PORT` where the port is not 443.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Upstream(Target);

impl Upstream {
    /// Host and port.
    pub fn target(&self) -> &Target {
        &self.0
    }
}

impl FromStr for Upstream {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let target = Target::parse(text, Some(HTTPS))?;
        target.host.require_specified()?;
        Ok(Self(target))
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.port == HTTPS { write!(f, "{}", self.0.host) } else { write!(f, "{}", self.0) }
    }
}

/// Whether a secret may be put into the header of this name.
pub fn check_header(name: &str) -> Result<(), InjectionError> {
    header_name(name).map(drop)
}

fn header_name(name: &str) -> Result<HeaderName, InjectionError> {
    let header = HeaderName::from_str(name).map_err(|_| InjectionError::Header { header: name.to_owned() })?;
    if FRAMING.contains(&header) {
        return Err(InjectionError::Framing { header: name.to_owned() });
    }
    Ok(header)
}

/// A secret for the requests to one host. Its value is shown by nothing.
#[derive(Clone)]
pub struct Injection {
    upstream: Upstream,
    header: HeaderName,
    value: HeaderValue,
}

impl fmt::Debug for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Injection")
            .field("upstream", &self.upstream)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

impl Injection {
    /// Has requests to `upstream` carry `value`, all of it, in the header `header`.
    pub fn new(upstream: Upstream, header: &str, value: &[u8]) -> Result<Self, InjectionError> {
        let name = header_name(header)?;
        let mut value =
            HeaderValue::from_bytes(value).map_err(|_| InjectionError::Value { header: header.to_owned() })?;
        value.set_sensitive(true);
        Ok(Self { upstream, header: name, value })
    }

    /// Where its requests go.
    pub(super) fn target(&self) -> &Target {
        &self.upstream.0
    }

    /// The address that counts as listed, if the upstream is one.
    pub(super) fn exempt(&self) -> Option<IpAddr> {
        match &self.upstream.0.host {
            Host::Address(address) => Some(*address),
            Host::Name(_) => None,
        }
    }

    /// Whether a request of this method may carry the secret.
    pub(super) fn allows(method: &Method) -> bool {
        METHODS.contains(method)
    }

    /// Takes out what could authenticate a request or speak for others, and puts in the secret.
    pub(super) fn apply(&self, headers: &mut HeaderMap) {
        let own = bare(self.header.as_str());
        let is_another = |name: &&HeaderName| is_taken_out(name.as_str()) || bare(name.as_str()) == own;
        let named: Vec<HeaderName> = headers.keys().filter(is_another).cloned().collect();
        for name in named {
            headers.remove(name);
        }
        headers.insert(self.header.clone(), self.value.clone());
    }
}

/// A name without what many servers do not tell apart.
fn bare(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect()
}

fn is_taken_out(name: &str) -> bool {
    let bare = bare(name);
    let speaks = |part: &str| bare == part || bare.strip_prefix('x').is_some_and(|rest| rest.starts_with(part));
    AUTHENTICATING.iter().any(|part| bare.contains(part)) || SPEAKING_FOR_OTHERS.iter().any(|part| speaks(part))
}

/// All injections of one proxy, with what their hosts are to prove themselves by.
#[derive(Clone, Default)]
pub struct Injections {
    all: Vec<Injection>,
    tls: Option<TlsConnector>,
}

impl fmt::Debug for Injections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.all).finish()
    }
}

impl Injections {
    /// Takes them in, with the certificate authorities that the system trusts, or those that `SSL_CERT_FILE` and
    /// `SSL_CERT_DIR` of this process name. Reads files.
    pub fn load(all: Vec<Injection>) -> Result<Self, InjectionError> {
        if all.is_empty() {
            return Ok(Self::default());
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(InjectionError::NoAuthorities);
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(InjectionError::Tls)?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { all, tls: Some(TlsConnector::from(Arc::new(config))) })
    }

    /// The one for a host as a request names it, and the port if it names one other than plain HTTP's.
    pub(super) fn find(&self, host: &Host, port: Option<u16>) -> Option<&Injection> {
        self.all.iter().find(|injection| {
            let target = injection.target();
            target.host == *host && target.port == port.unwrap_or(HTTPS)
        })
    }

    /// Has a host prove itself.
    pub(super) async fn secure<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        target: &Target,
        stream: S,
    ) -> Result<TlsStream<S>, String> {
        let name = match &target.host {
            Host::Address(address) => ServerName::IpAddress((*address).into()),
            Host::Name(name) => ServerName::try_from(name.clone()).map_err(|error| error.to_string())?,
        };
        let tls = self.tls.as_ref().ok_or("TLS is not set up")?;
        tls.connect(name, stream).await.map_err(|error| format!("TLS: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn injection(upstream: &str, header: &str) -> Injection {
        Injection::new(upstream.parse().unwrap(), header, b"Bearer s3cret").unwrap()
    }

    #[test]
    fn no_secret_is_shown() {
        let one = injection("api.example.com", "X-Api-Key");
        let all = Injections { all: vec![one.clone()], tls: None };
        for text in [format!("{one:?}"), format!("{all:#?}"), format!("{:?}", one.value)] {
            assert!(!text.contains("s3cret"), "{text}");
        }
        let error = Injection::new("a.example".parse().unwrap(), "x-key", b"s3cret\r\nx: y").unwrap_err();
        assert!(!error.to_string().contains("s3cret") && error.to_string().contains("x-key"), "{error}");
    }

    #[test]
    fn headers_that_frame_a_message_hold_none() {
        for header in ["host", "Content-Length", "TRANSFER-ENCODING", "connection", "proxy-authorization"] {
            assert!(matches!(check_header(header), Err(InjectionError::Framing { .. })), "{header}");
        }
        for header in ["", "a b", "x:y", "é"] {
            assert!(matches!(check_header(header), Err(InjectionError::Header { .. })), "{header}");
        }
        for header in ["authorization", "X-Api-Key", "api-key"] {
            check_header(header).unwrap();
        }
    }

    #[test]
    fn what_could_authenticate_is_replaced() {
        let mut headers = HeaderMap::new();
        for name in [
            "authorization",
            "proxy-authorization",
            "x-api-key",
            "x_api_key",
            "api-key",
            "x-goog-api-key",
            "cookie",
            "x-auth-token",
            "private-token",
            "ocp-apim-subscription-key",
            "x-amz-security-token",
            "x-github-otp-token",
            "forwarded",
            "x-forwarded-for",
            "x-forwarded-host",
            "x-real-ip",
            "via",
            "x-http-method-override",
            "x-method-override",
            "x-own",
            "x_own",
            "accept",
            "viable",
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static("mine"));
            headers.append(HeaderName::from_static(name), HeaderValue::from_static("mine too"));
        }
        injection("a.example", "X-Own").apply(&mut headers);
        let mut left: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        left.sort_unstable();
        let kept = [("accept", &b"mine"[..]), ("accept", b"mine too"), ("viable", b"mine"), ("viable", b"mine too")];
        assert_eq!(left, kept.into_iter().chain([("x-own", &b"Bearer s3cret"[..])]).collect::<Vec<_>>());
    }

    #[test]
    fn an_upstream_is_found_by_host_and_port() {
        let all = Injections { all: vec![injection("a.example", "x"), injection("127.0.0.1:9", "x")], tls: None };
        let find = |host: &str, port| all.find(&Host::parse(host).unwrap(), port).map(|it| it.upstream.to_string());
        assert_eq!(find("A.example.", None).as_deref(), Some("a.example"));
        assert_eq!(find("a.example", Some(443)).as_deref(), Some("a.example"));
        assert_eq!(find("a.example", Some(80)), None);
        assert_eq!(find("127.0.0.1", Some(9)).as_deref(), Some("127.0.0.1:9"));
        assert_eq!(find("127.0.0.1", None), None);
        assert_eq!(find("b.a.example", None), None);
    }
}
