//! One order, from its names to the chain.

use crate::certificate::{Certificate, Life};
use crate::challenges::{Challenges, Opened};
use crate::hook::Record;
use crate::name::{Name, Names};
use crate::note::Note;
use crate::settings::Challenge;
use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeHandle, ChallengeType, Error, Identifier,
    NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{PemObject, SectionKind};
use std::sync::Arc;
use std::time::Duration;

/// How an authority is asked whether it is done, within the time that an order has. It says itself when to ask, if that matters to it.
const POLLS: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.3)
    .timeout(Duration::from_secs(900));

/// Authorizations that an authority may want for each name (RFC 8555 section 7.1.3 does not say one).
const EACH: usize = 4;

/// Certificates of a chain: clients refuse what is much longer.
const CHAIN: usize = 10;
/// How far the authority's clock may be ahead of this one, in seconds.
const AHEAD: u64 = 3600;
/// Characters of what an authority says that are told.
const SAID: usize = 500;

/// Why there is no certificate.
#[derive(Debug)]
pub struct Failure {
    /// One line.
    pub why: String,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The authority was asked too often.
    RateLimited,
    /// It does not know the account.
    UnknownAccount,
    /// It issued something that is of no use.
    Useless,
    /// Anything else.
    Other,
}

/// What is ordered, and how it is proved.
pub struct Wish<'a> {
    pub names: &'a Names,
    pub profile: Option<&'a str>,
    /// The certificate in whose place it comes, as far as the authority takes part in renewals (RFC 9773 section 5).
    pub replaces: Option<CertificateIdentifier<'static>>,
    pub challenge: &'a Challenge,
    pub challenges: &'a Arc<Challenges>,
    pub provider: &'a CryptoProvider,
}

impl Wish<'_> {
    /// The chain and its key, as one text of PEM that was checked. `note`: where records are told before they are put into DNS; they are
    /// left there. `now`: seconds since 1970.
    pub async fn order(&self, account: &Account, note: &mut Note, now: u64) -> Result<String, Failure> {
        let identifiers: Vec<Identifier> = self.names.iter().map(identifier).collect();
        let new = || match self.profile {
            Some(profile) => NewOrder::new(&identifiers).profile(profile),
            None => NewOrder::new(&identifiers),
        };
        let mut order = match &self.replaces {
            None => account.new_order(&new()).await?,
            Some(before) => match account.new_order(&new().replaces(before.clone())).await {
                Ok(order) => order,
                // That one was replaced before, or is not this account's, or the authority does not say that it has understood: it is
                // ordered as a new one.
                Err(error) => match Failure::from(error) {
                    Failure { kind: Kind::Other, .. } => account.new_order(&new()).await?,
                    failure => return Err(failure),
                },
            },
        };
        if order.state().authorizations.len() > EACH * identifiers.len() {
            return Err("the authority wants more authorizations than the order has names".into());
        }
        // They close when it has ended, whatever came of it.
        let mut open = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            let name = authorization.identifier().to_string();
            match authorization.status {
                AuthorizationStatus::Pending => {}
                AuthorizationStatus::Valid => continue,
                status => return Err(format!("{name}: the authorization is {status:?}").into()),
            }
            let offered: Vec<_> =
                authorization.challenges.iter().map(|one| format!("{:?}", one.r#type)).collect();
            let mut challenge = authorization.challenge(kind(self.challenge)).ok_or_else(|| {
                let wanted = self.challenge.name();
                format!("{name}: the authority does not take {wanted}, but {}", offered.join(", "))
            })?;
            open.extend(self.open(&challenge, note).await?);
            challenge.set_ready().await?;
        }
        match order.poll_ready(&POLLS).await {
            Ok(OrderStatus::Ready) => {}
            Ok(status) => {
                let why = format!("the authority says that the order is {status:?}, and not why");
                return Err(refused(&mut order).await.unwrap_or(why.into()));
            }
            // What is wrong with a name says more than that something is.
            Err(error @ Error::Api(_)) => {
                let failure = Failure::from(error);
                return Err(match failure.kind {
                    Kind::Other => refused(&mut order).await.unwrap_or(failure),
                    _ => failure,
                });
            }
            Err(error) => return Err(error.into()),
        }
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let names = self.names.iter().map(Name::to_string).collect::<Vec<_>>();
        let mut params = CertificateParams::new(names).map_err(|error| error.to_string())?;
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(&key).map_err(|error| error.to_string())?;
        order.finalize_csr(request.der()).await?;
        let chain = order.poll_certificate(&POLLS).await?;
        self.joined(&chain, &key.serialize_pem(), now).map_err(|why| Failure {
            kind: Kind::Useless,
            ..format!("what the authority sent is of no use: {why}").into()
        })
    }

    /// Makes what proves a name. What it gives closes when dropped.
    async fn open(
        &self,
        challenge: &ChallengeHandle<'_>,
        note: &mut Note,
    ) -> Result<Option<Opened>, Failure> {
        let authorization = challenge.key_authorization();
        let identifier = challenge.identifier().identifier;
        let name = self
            .names
            .iter()
            .find(|name| self::identifier(name) == *identifier || is_behind(name, identifier));
        let name = name.ok_or("the authority asks for a name that was not ordered")?;
        let is_base64url = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if challenge.token.is_empty() || !challenge.token.bytes().all(is_base64url) {
            return Err(format!("{name}: the challenge's token is not base64url").into());
        }
        Ok(match self.challenge {
            Challenge::Http => Some(self.challenges.open_http(&challenge.token, authorization.as_str())),
            Challenge::TlsAlpn => {
                let digest = authorization.digest();
                Some(self.challenges.open_tls(name, digest.as_ref(), self.provider)?)
            }
            Challenge::Dns(program) => {
                let record = Record::of(name, authorization.dns_value())?;
                note.add(record.clone())?;
                record.present(program).await?;
                None
            }
        })
    }

    /// The chain with its key, if it is nothing but a chain, for the names, of that key, and holds now.
    fn joined(&self, chain: &str, key: &str, now: u64) -> Result<String, String> {
        for (n, section) in <(SectionKind, Vec<u8>)>::pem_slice_iter(chain.as_bytes()).enumerate() {
            if n >= CHAIN {
                return Err(format!("more than {CHAIN} certificates are in its chain"));
            }
            if section.map_err(|error| error.to_string())?.0 != SectionKind::Certificate {
                return Err("not all of it are certificates".into());
            }
        }
        let pem = format!("{}\n{key}", chain.trim_end());
        let read = Certificate::of_pem(pem.as_bytes(), self.provider)?;
        let clock = "is the clock of this host right?";
        match read.life {
            _ if !read.covers(self.names) => Err("it is for other names".into()),
            Life { until, .. } if until <= now => Err(format!("it has expired: {clock}")),
            Life { from, .. } if from > now.saturating_add(AHEAD) => {
                Err(format!("it does not hold yet: {clock}"))
            }
            _ => Ok(pem),
        }
    }
}

/// What the authority says of the names that it could not see, if it says anything.
async fn refused(order: &mut Order) -> Option<Failure> {
    let mut found = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let name = authorization.identifier().to_string();
        let Ok(state) = authorization.refresh().await else { continue };
        let problems = state.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
        found.extend(problems.map(|problem| (format!("{name}: {}", said(problem)), Kind::of(problem))));
    }
    let kind = found.iter().map(|(_, kind)| *kind).find(|kind| *kind != Kind::Other).unwrap_or(Kind::Other);
    let why = found.into_iter().map(|(why, _)| why).collect::<Vec<_>>().join("; ");
    (!why.is_empty()).then(|| Failure { kind, ..why.into() })
}

fn said(problem: &instant_acme::Problem) -> String {
    let kind = problem.r#type.as_deref().unwrap_or_default();
    let kind = kind.strip_prefix("urn:ietf:params:acme:error:").unwrap_or(kind);
    let details = std::iter::once(&problem.detail).chain(problem.subproblems.iter().map(|sub| &sub.detail));
    let details: Vec<_> = details.flatten().map(String::as_str).collect();
    match kind {
        // Only that it is none of the kinds (RFC 9457 section 4.2.1).
        "about:blank" => details.join("; "),
        kind => format!("{} ({kind})", details.join("; ")),
    }
}

fn kind(challenge: &Challenge) -> ChallengeType {
    match challenge {
        Challenge::Http => ChallengeType::Http01,
        Challenge::TlsAlpn => ChallengeType::TlsAlpn01,
        Challenge::Dns(_) => ChallengeType::Dns01,
    }
}

fn identifier(name: &Name) -> Identifier {
    match name {
        Name::Host(_) | Name::Wild(_) => Identifier::Dns(name.to_string()),
        Name::Address(address) => Identifier::Ip(*address),
    }
}

/// The authority names what is behind `*.` (RFC 8555 section 7.1.3).
fn is_behind(name: &Name, identifier: &Identifier) -> bool {
    matches!((name, identifier), (Name::Wild(host), Identifier::Dns(asked)) if host == asked)
}

impl Kind {
    /// How long it is waited at least before the next order.
    pub fn least(self) -> Duration {
        Duration::from_secs(match self {
            // It means hours.
            Kind::RateLimited => 3600,
            // Let's Encrypt issues five of the same names in a week.
            Kind::Useless => 6 * 3600,
            Kind::UnknownAccount | Kind::Other => 0,
        })
    }

    fn of(problem: &instant_acme::Problem) -> Kind {
        let kind = problem.r#type.as_deref().unwrap_or_default();
        match kind.strip_prefix("urn:ietf:params:acme:error:") {
            Some("rateLimited") => Kind::RateLimited,
            Some("accountDoesNotExist") => Kind::UnknownAccount,
            _ => Kind::Other,
        }
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        let clean = |c: char| if c.is_control() { ' ' } else { c };
        Failure { why: why.chars().take(SAID).map(clean).collect(), kind: Kind::Other }
    }
}

impl From<&str> for Failure {
    fn from(why: &str) -> Failure {
        why.to_owned().into()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Api(problem) => Failure { kind: Kind::of(&problem), ..said(&problem).into() },
            Error::Timeout(_) => {
                "the authority is not done, or wants to be asked later than an order waits".into()
            }
            error => error.to_string().into(),
        }
    }
}
