//! I keep calls away from addresses that must not be called: literals before a call, names as they are resolved for
//! the very connection that is made. Which ranges are refused is the core's knowledge, not mine.

use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use punctual_core::address;
use punctual_core::outcome::Failure;
use punctual_core::rule::Rule;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use rustls::CertificateError;

/// What a lookup gives back in the end.
pub type Addresses = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Gives a name's addresses. Asked for each new connection; nothing is cached here.
pub type Lookup = Arc<dyn Fn(String) -> Addresses + Send + Sync>;

/// The operating system's lookup.
pub(super) fn system_lookup() -> Lookup {
    Arc::new(|name| Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|a| a.ip()).collect()) }))
}

/// Why a name gave no address to connect to.
#[derive(Debug, thiserror::Error)]
enum NameError {
    #[error("the address is refused by rule {0}")]
    Refused(Rule),
    #[error("the name has no address")]
    NoAddress,
}

/// Judges addresses for this stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guard {
    /// Whether loopback and private addresses, and plain HTTP, pass.
    pub(super) allow_local: bool,
}

impl Guard {
    /// The rule that refuses this address, if any. A local stage may call loopback and private networks (containers),
    /// but nothing else that the core refuses: a metadata endpoint stays out of reach there too.
    pub(super) fn refused(self, address: IpAddr) -> Option<Rule> {
        let rule = address::refused(address)?;
        let passes = self.allow_local && is_local(address);
        if passes { None } else { Some(rule) }
    }

    /// Reads a URL, and refuses it by a named rule if its text alone is reason enough.
    ///
    /// # Errors
    /// The rule.
    pub(super) fn url(self, text: &str) -> Result<Url, Rule> {
        let url = Url::parse(text).map_err(|_| Rule::InvalidUrl)?;
        match url.scheme() {
            "https" => {}
            "http" if self.allow_local => {}
            _ => return Err(Rule::NotHttps),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Rule::CredentialsInUrl);
        }
        let host = url.host_str().ok_or(Rule::InvalidUrl)?;
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match literal.ok().and_then(|address| self.refused(address)) {
            Some(rule) => Err(rule),
            None => Ok(url),
        }
    }
}

/// Loopback or a private network; never the part of it where a cloud keeps its metadata.
fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private(),
        IpAddr::V6(v6) => v6.is_loopback() || (v6.is_unique_local() && !is_metadata(v6)),
    }
}

/// `fd00:ec2::/32`: metadata, credentials and time of the cloud, over IPv6.
fn is_metadata(address: Ipv6Addr) -> bool {
    matches!(address.segments(), [0xfd00, 0x0ec2, ..])
}

/// The resolver of the HTTP client: what it lets through is what the connection uses, so a name that changes its
/// address between a check and a call gains nothing.
pub(super) struct GuardedResolver {
    pub(super) guard: Guard,
    pub(super) lookup: Lookup,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (guard, looked_up) = (self.guard, (self.lookup)(name.as_str().to_owned()));
        Box::pin(async move {
            let mut refused = None;
            let mut usable = Vec::new();
            for address in looked_up.await.map_err(|_| NameError::NoAddress)? {
                match guard.refused(address) {
                    Some(rule) => refused = refused.or(Some(rule)),
                    None => usable.push(SocketAddr::new(address, 0)),
                }
            }
            match refused {
                Some(rule) if usable.is_empty() => Err(NameError::Refused(rule).into()),
                _ if usable.is_empty() => Err(NameError::NoAddress.into()),
                _ => {
                    let usable: Addrs = Box::new(usable.into_iter());
                    Ok(usable)
                }
            }
        })
    }
}

/// What kept a request from being sent, read from the chain of causes.
pub(super) fn unsent(error: &reqwest::Error) -> Failure {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        match error.downcast_ref::<NameError>() {
            Some(NameError::Refused(rule)) => return Failure::Refused(*rule),
            Some(NameError::NoAddress) => return Failure::Dns,
            None => {}
        }
        match error.downcast_ref::<rustls::Error>() {
            Some(rustls::Error::InvalidCertificate(problem)) => return Failure::Refused(broken_rule(problem)),
            Some(rustls::Error::NoCertificatesPresented) => return Failure::Refused(Rule::CertificateInvalid),
            Some(_) => return Failure::Tls,
            None => {}
        }
        // An I/O error hides what it wraps from `source`.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause = wrapped.map(|inner| inner as &(dyn Error + 'static)).or_else(|| error.source());
    }
    Failure::Connect
}

/// The rule that a certificate breaks.
fn broken_rule(problem: &CertificateError) -> Rule {
    match problem {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => Rule::CertificateName,
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => Rule::CertificateExpired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Rule::CertificateNotYetValid,
        // Its authority is unknown, or only has the name of one that is known.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => Rule::CertificateIssuer,
        CertificateError::Revoked => Rule::CertificateRevoked,
        _ => Rule::CertificateInvalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Public at the first question, private at the next: each answer is judged when it is given, and what is given is
    /// all that the connection has.
    #[tokio::test]
    async fn a_name_is_judged_anew_at_each_lookup() {
        let answers = std::sync::Mutex::new(vec![vec!["10.0.0.1"], vec!["192.168.0.1", "1.1.1.1"], vec!["1.1.1.1"]]);
        let lookup: Lookup = Arc::new(move |_| {
            let next = answers.lock().expect("unpoisoned").pop().expect("a further answer");
            Box::pin(async move { Ok(next.iter().map(|text| text.parse().expect("an address")).collect()) })
        });
        let resolver = GuardedResolver { guard: Guard { allow_local: false }, lookup };
        let name = || "receiver.test".parse::<Name>().expect("a name");
        for _ in 0..2 {
            let given: Vec<SocketAddr> = resolver.resolve(name()).await.expect("addresses").collect();
            assert_eq!(given, ["1.1.1.1:0".parse().expect("an address")]);
        }
        let Err(error) = resolver.resolve(name()).await else { panic!("a private address was given") };
        assert!(matches!(error.downcast_ref(), Some(NameError::Refused(Rule::Private))), "{error}");
    }

    #[test]
    fn text_alone_can_be_refused() {
        let (public, local) = (Guard { allow_local: false }, Guard { allow_local: true });
        for (url, in_public, in_local) in [
            ("https://hooks.example.com/r", None, None),
            ("https://1.1.1.1/", None, None),
            ("http://hooks.example.com/r", Some("not-https"), None),
            ("ftp://hooks.example.com/r", Some("not-https"), Some("not-https")),
            ("https://u:p@hooks.example.com/", Some("credentials-in-url"), Some("credentials-in-url")),
            ("nonsense", Some("invalid-url"), Some("invalid-url")),
            ("https://127.0.0.1/", Some("loopback"), None),
            ("https://127.0.0.1./", Some("loopback"), None),
            ("https://0x7f.1/", Some("loopback"), None),
            ("https://2130706433/", Some("loopback"), None),
            ("https://10.1.2.3/", Some("private"), None),
            ("https://[::1]/", Some("loopback"), None),
            ("https://[fd12::1]/", Some("private"), None),
            ("https://[::ffff:127.0.0.1]/", Some("ipv4-mapped"), Some("ipv4-mapped")),
            ("https://[64:ff9b::7f00:1]/", Some("nat64"), Some("nat64")),
            ("https://[fd00:ec2::254]/", Some("private"), Some("private")),
            ("https://169.254.169.254/", Some("link-local-or-metadata"), Some("link-local-or-metadata")),
            ("https://100.64.0.1/", Some("carrier-grade-nat"), Some("carrier-grade-nat")),
            ("https://0.0.0.0/", Some("this-network"), Some("this-network")),
        ] {
            assert_eq!(public.url(url).err().map(Rule::code), in_public, "{url}");
            assert_eq!(local.url(url).err().map(Rule::code), in_local, "{url} on a local stage");
        }
    }
}
