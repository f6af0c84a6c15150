//! The local issuer: tokens for development, tests and small installations, with keys in the data directory.

mod files;
mod signer;

use std::{
    fmt,
    path::Path,
    sync::{PoisonError, RwLock},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use nagaya_store::Clock;
use serde_json::{Map, Value as Json, json};

pub(in crate::identity) use self::files::{Files, LOST_REVOCATIONS, damaged};
use self::signer::Signer;
use super::{Claims, IssuerError, keys::Keys};

/// Its URL before a server has set one: the default address of a server.
const DEFAULT_URL: &str = "http://127.0.0.1:8080";
/// The most URLs that are kept. A server on a random port has a new one at each start.
const MAX_URLS: usize = 100;

/// An issuer with keys of its own.
pub struct LocalIssuer {
    /// `None`: the keys exist only in memory.
    files: Option<Files>,
    state: RwLock<State>,
    keys: Keys,
    clock: Clock,
}

/// The content of the directory.
#[derive(Clone)]
struct State {
    /// The newest one, which signs, is the last.
    signers: Vec<Signer>,
    /// All URLs that it has had, the newest last.
    urls: Vec<String>,
}

/// The content of a token.
#[derive(Debug, Clone)]
pub struct Grant<'g> {
    /// The system that it is for.
    pub audience: &'g str,
    /// The claims that the system's design names.
    pub claims: &'g Claims,
    /// The user. Where the claim of the tenant is `sub`, the tenant is the user.
    pub user: &'g str,
    /// The tenant; none for operators who belong to none.
    pub tenant: Option<&'g str>,
    /// The roles.
    pub roles: &'g [String],
    /// All tenants that the user belongs to, if the design has a claim for them; empty: only the tenant.
    pub member_of: &'g [String],
    /// How long it is valid.
    pub ttl: Duration,
}

impl fmt::Debug for LocalIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the keys.
        write!(f, "LocalIssuer({})", self.url())
    }
}

impl LocalIssuer {
    /// The issuer of a data directory, with a new key if it has none. Several processes may have it open.
    pub fn open(data: &Path) -> Result<Self, IssuerError> {
        let files = Files::at(data)?;
        let state = match files.read()? {
            Some(state) => state,
            None => {
                let _lock = files.lock()?;
                // Another process may have created the keys meanwhile.
                match files.read()? {
                    Some(state) => state,
                    None => {
                        let state = State::new()?;
                        files.write(&state)?;
                        state
                    }
                }
            }
        };
        Ok(LocalIssuer::new(Some(files), state))
    }

    /// An issuer whose keys end with the process.
    pub fn in_memory() -> Result<Self, IssuerError> {
        Ok(LocalIssuer::new(None, State::new()?))
    }

    fn new(files: Option<Files>, state: State) -> Self {
        let keys = Keys::default();
        keys.replace(state.signers.iter().rev().filter_map(Signer::jwk));
        LocalIssuer { files, state: RwLock::new(state), keys, clock: Clock::system() }
    }

    /// With another clock, for tests.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Its URL, which is the `iss` of its tokens.
    pub fn url(&self) -> String {
        self.read(|state| state.urls.last().cloned()).unwrap_or_else(|| DEFAULT_URL.to_owned())
    }

    /// Sets its URL. Tokens with an earlier URL stay valid.
    pub fn set_url(&self, url: &str) -> Result<(), IssuerError> {
        let url = url.trim_end_matches('/');
        Self::check_url(url)?;
        if self.url() == url {
            return Ok(());
        }
        self.change(|state| {
            state.urls.retain(|known| known != url);
            state.urls.push(url.to_owned());
            let surplus = state.urls.len().saturating_sub(MAX_URLS);
            state.urls.drain(..surplus);
        })
    }

    /// Refuses a text that is not the URL of a server.
    pub fn check_url(url: &str) -> Result<(), IssuerError> {
        let url = url.trim_end_matches('/');
        let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        if host.is_none_or(str::is_empty) || url.contains(|each: char| "?#".contains(each) || each.is_whitespace()) {
            return Err(IssuerError::new(format!(
                "`{}` is not the URL of a server, such as https://api.example.com",
                super::without_credentials(url)
            )));
        }
        Ok(())
    }

    /// Signs with a new key from now on, and returns its id. Tokens of older keys stay valid.
    pub fn rotate(&self) -> Result<String, IssuerError> {
        let signer = Signer::new()?;
        let id = signer.id().to_owned();
        self.change(|state| state.signers.push(signer))?;
        Ok(id)
    }

    /// Removes all keys but the newest: tokens of the others are refused from now on.
    pub fn remove_older_keys(&self) -> Result<(), IssuerError> {
        self.change(|state| {
            let older = state.signers.len().saturating_sub(1);
            state.signers.drain(..older);
        })
    }

    /// Its public keys, as a JWK set.
    pub fn jwks(&self) -> Json {
        self.read(|state| json!({ "keys": state.signers.iter().map(Signer::public).collect::<Vec<_>>() }))
    }

    /// Its discovery document.
    pub fn discovery(&self) -> Json {
        let url = self.url();
        json!({
            "issuer": url,
            "jwks_uri": format!("{url}{}", nagaya_design::server_path::KEYS),
            "id_token_signing_alg_values_supported": ["ES256"],
            "response_types_supported": [],
            "subject_types_supported": ["public"],
        })
    }

    /// Issues a token.
    pub fn issue(&self, grant: &Grant<'_>) -> Result<String, IssuerError> {
        self.issue_with_id(grant).map(|(token, _)| token)
    }

    /// Issues a token, and gives its id (`jti`) too.
    pub fn issue_with_id(&self, grant: &Grant<'_>) -> Result<(String, String), IssuerError> {
        let names = grant.claims;
        let user = grant.tenant.filter(|_| names.tenant == "sub").unwrap_or(grant.user);
        if user.is_empty() || grant.tenant == Some("") {
            return Err(IssuerError::new("a token needs a user and, if it has a tenant, one with a name"));
        }
        let mut claims = Map::new();
        if let Some(tenant) = grant.tenant {
            claims.insert(names.tenant.clone(), json!(tenant));
        }
        let (operator_roles, roles): (Vec<_>, Vec<_>) =
            grant.roles.iter().partition(|role| names.operator_roles.contains(role));
        if !roles.is_empty() {
            claims.insert(names.roles.clone(), json!(roles));
        }
        if !operator_roles.is_empty() {
            claims.insert(names.operator.clone(), json!(operator_roles));
        }
        if let (Some(name), Some(tenant)) = (&names.member_of, grant.tenant) {
            let member_of = if grant.member_of.is_empty() { json!([tenant]) } else { json!(grant.member_of) };
            claims.insert(name.clone(), member_of);
        }
        // Last: the claims of a design must not replace the registered ones.
        let now = self.clock.seconds();
        let ttl = i64::try_from(grant.ttl.as_secs()).unwrap_or(i64::MAX);
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|_| IssuerError::new("the system gives no random bytes"))?;
        let id = BASE64.encode(id);
        claims.insert("iss".to_owned(), json!(self.url()));
        claims.insert("aud".to_owned(), json!(grant.audience));
        claims.insert("sub".to_owned(), json!(user));
        claims.insert("jti".to_owned(), json!(id));
        claims.insert("iat".to_owned(), json!(now));
        claims.insert("exp".to_owned(), json!(now.saturating_add(ttl)));
        let token = self.read(|state| state.signers.last().and_then(|signer| signer.sign(&claims)));
        token.map(|token| (token, id)).ok_or_else(|| IssuerError::new("the token could not be signed"))
    }

    /// Whether it has, or has had, this URL.
    pub(super) fn has_had_url(&self, url: &str) -> bool {
        self.read(|state| state.urls.iter().any(|known| known == url))
    }

    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Loads what another process has changed.
    pub(super) fn reload(&self) -> Result<(), IssuerError> {
        let Some(files) = &self.files else { return Ok(()) };
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let found = files.read()?.ok_or_else(|| IssuerError::new("the keys of the local issuer are gone"))?;
        self.keys.replace(found.signers.iter().rev().filter_map(Signer::jwk));
        *state = found;
        Ok(())
    }

    fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut State)) -> Result<(), IssuerError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = state.clone();
        if let Some(files) = &self.files {
            let _lock = files.lock()?;
            // Another process may have changed it as well.
            changed = files.read()?.unwrap_or(changed);
            change(&mut changed);
            files.write(&changed)?;
        } else {
            change(&mut changed);
        }
        self.keys.replace(changed.signers.iter().rev().filter_map(Signer::jwk));
        *state = changed;
        Ok(())
    }
}

impl State {
    fn new() -> Result<Self, IssuerError> {
        Ok(State { signers: vec![Signer::new()?], urls: vec![DEFAULT_URL.to_owned()] })
    }
}
