//! One order, from its names to the chain.

use crate::certificate::Certificate;
use crate::challenges::{Challenges, Opened};
use crate::hook::Record;
use crate::name::{Name, Names};
use crate::settings::Challenge;
use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeHandle, ChallengeType, Error, Identifier,
    NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use rustls::crypto::CryptoProvider;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How an authority is asked whether it is done. It says itself when to ask, if that matters to it.
const POLLS: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.3)
    .timeout(Duration::from_secs(180));

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

/// What is to be closed when the order has ended, whatever came of it.
enum Proof {
    Open(#[expect(dead_code, reason = "it closes when dropped")] Opened),
    Record(Record),
}

impl Wish<'_> {
    /// The chain and its key, as one text of PEM that was checked.
    pub async fn order(&self, account: &Account) -> Result<String, Failure> {
        let identifiers: Vec<Identifier> = self.names.iter().map(identifier).collect();
        let new = || match self.profile {
            Some(profile) => NewOrder::new(&identifiers).profile(profile),
            None => NewOrder::new(&identifiers),
        };
        let mut order = match &self.replaces {
            None => account.new_order(&new()).await?,
            Some(before) => match account.new_order(&new().replaces(before.clone())).await {
                // That one was replaced before, or is not this account's: it is ordered as a new one.
                Err(Error::Api(problem)) if Kind::of(&problem) == Kind::Other => {
                    account.new_order(&new()).await?
                }
                order => order?,
            },
        };
        let mut proofs = Vec::new();
        let made = self.make(&mut order, &mut proofs).await;
        if let Challenge::Dns(program) = self.challenge {
            for proof in &proofs {
                if let Proof::Record(record) = proof
                    && let Err(why) = record.cleanup(program).await
                {
                    tracing::warn!(target: "acme", cause = why, "a record of a challenge may be left in DNS");
                }
            }
        }
        made
    }

    async fn make(&self, order: &mut Order, proofs: &mut Vec<Proof>) -> Result<String, Failure> {
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
            proofs.push(self.open(&challenge).await?);
            challenge.set_ready().await?;
        }
        match order.poll_ready(&POLLS).await {
            Ok(OrderStatus::Ready) => {}
            Err(error @ Error::Timeout(_)) => return Err(error.into()),
            _ => return Err(refused(order).await),
        }
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let names = self.names.iter().map(Name::to_string).collect::<Vec<_>>();
        let mut params = CertificateParams::new(names).map_err(|error| error.to_string())?;
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(&key).map_err(|error| error.to_string())?;
        order.finalize_csr(request.der()).await?;
        let chain = order.poll_certificate(&POLLS).await?;
        let pem = format!("{}\n{}", chain.trim_end(), key.serialize_pem());
        self.check(&pem).map_err(|why| format!("what the authority sent is of no use: {why}"))?;
        Ok(pem)
    }

    async fn open(&self, challenge: &ChallengeHandle<'_>) -> Result<Proof, Failure> {
        let authorization = challenge.key_authorization();
        let identifier = challenge.identifier().identifier;
        let name = self
            .names
            .iter()
            .find(|name| self::identifier(name) == *identifier || is_behind(name, identifier));
        let name = name.ok_or("the authority asks for a name that was not ordered")?;
        Ok(match self.challenge {
            Challenge::Http => {
                Proof::Open(self.challenges.open_http(&challenge.token, authorization.as_str()))
            }
            Challenge::TlsAlpn => {
                let digest = authorization.digest();
                Proof::Open(self.challenges.open_tls(name, digest.as_ref(), self.provider)?)
            }
            Challenge::Dns(program) => {
                let record = Record::of(name, authorization.dns_value())?;
                present(&record, program).await?;
                Proof::Record(record)
            }
        })
    }

    /// That the key is that of the chain, and the chain is for the names.
    fn check(&self, pem: &str) -> Result<(), String> {
        match Certificate::of_pem(pem.as_bytes(), self.provider)?.covers(self.names) {
            true => Ok(()),
            false => Err("it is for other names".into()),
        }
    }
}

async fn present(record: &Record, program: &Path) -> Result<(), Failure> {
    let came = record.present(program).await;
    if came.is_err() {
        // It may have got half of the way.
        let _ = record.cleanup(program).await;
    }
    Ok(came?)
}

/// What the authority says of the names that it could not see.
async fn refused(order: &mut Order) -> Failure {
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
    match why.is_empty() {
        true => "the authority refuses the order, and does not say why".to_owned().into(),
        false => Failure { kind, ..why.into() },
    }
}

fn said(problem: &instant_acme::Problem) -> String {
    let kind = problem.r#type.as_deref().unwrap_or_default();
    let kind = kind.strip_prefix("urn:ietf:params:acme:error:").unwrap_or(kind);
    let details = std::iter::once(&problem.detail).chain(problem.subproblems.iter().map(|sub| &sub.detail));
    let details: Vec<_> = details.flatten().map(String::as_str).collect();
    format!("{} ({kind})", details.join("; "))
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
            error => error.to_string().into(),
        }
    }
}
