//! One request on its way: who asks, what for, and the handles that reach the data.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use nagaya_design::{Design, Verb};
use nagaya_tenancy::{Error, Expected, Ids, List, Nagaya, Operator, Page, Principal, Record, Tenant, Visitor};
use serde_json::{Map, Value as Json};

use crate::{
    Problem,
    answer::{names, tag},
    derived,
    identity::Caller,
    route::{Reach, Route},
};

/// Does the same with either handle that writes.
macro_rules! with {
    ($handle:expr, $name:ident => $call:expr) => {
        match $handle {
            $crate::call::Handle::Tenant($name) => $call,
            $crate::call::Handle::Operator($name) => $call,
        }
    };
}
pub(crate) use with;

/// The header in which an operator states a reason.
pub const REASON: &str = "nagaya-reason";

/// A request, checked as far as it can be before the data is reached.
#[derive(Debug)]
pub struct Call {
    pub(crate) nagaya: Nagaya,
    /// What its path started with besides what the design says: `/todo` beside others, nothing alone.
    pub(crate) mount: Arc<str>,
    /// The route that it came by.
    pub route: Arc<Route>,
    /// Who asks.
    pub caller: Arc<Caller>,
    /// Where it came from, and what it is part of.
    pub origin: Origin,
    /// The values of the path's parameters, in the order of the route's [names](Route::parameters).
    pub path: Vec<String>,
    /// The parameters of the query, in order.
    pub query: Vec<(String, String)>,
    /// The headers.
    pub headers: HeaderMap,
    /// The body's fields; none where there is no body.
    pub body: Map<String, Json>,
}

/// Where a request came from, and what it is part of.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The id of the request, made here unless the caller gave one.
    pub request: Arc<str>,
    /// The same for everything that one act of a user sets off.
    pub correlation: Arc<str>,
    /// What caused the request, if the caller says so.
    pub causation: Option<Arc<str>>,
    /// The address that it came from.
    pub address: Option<Arc<str>>,
}

impl Call {
    /// The design that is served.
    pub fn design(&self) -> &Design {
        self.nagaya.design()
    }

    /// The time, in milliseconds since 1970.
    pub fn now(&self) -> i64 {
        self.nagaya.clock().millis()
    }

    /// The time, in the form of a timestamp field.
    pub fn moment(&self, entity: &str, field: &str) -> Json {
        let field = self.design().entity(entity).and_then(|entity| entity.field(field));
        field.and_then(|field| field.instant(self.now())).unwrap_or_default()
    }

    /// What makes ids.
    pub fn ids(&self) -> Ids {
        self.nagaya.ids()
    }

    /// Where an item is found, from the parts of its path below the design's prefix.
    pub fn location(&self, path: &str) -> String {
        format!("{}{}{path}", self.mount, self.design().http_prefix)
    }

    /// A parameter of the query.
    pub fn asked(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(each, _)| each == name).map(|(_, value)| value.as_str())
    }

    /// A parameter of the path.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.route.parameters().zip(&self.path).find(|(each, _)| *each == name).map(|(_, value)| value.as_str())
    }

    /// The id that the path gives.
    pub(crate) fn id(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    /// A header that is readable text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// What the caller wants with which entity; `None` for routes of the system's own.
    pub fn subject(&self) -> Option<(&str, Verb)> {
        self.route.subject(self.design()).map(|(entity, verb)| (entity.name.as_str(), verb))
    }

    /// The handle of the caller's tenant.
    pub fn tenant(&self) -> Result<Tenant, Problem> {
        let no_tenant = || Problem::forbidden("The token names no tenant.");
        let tenant = self.caller.tenant.as_ref().ok_or_else(no_tenant)?;
        Ok(self.nagaya.enter(self.principal(Arc::clone(tenant)))?)
    }

    /// The handle of an operator: the caller's roles have to allow it, and the request has to state a reason.
    pub fn operator(&self) -> Result<Operator, Problem> {
        if !self.design().is_operator(&self.caller.roles) {
            return Err(Problem::operators_only(self.design()));
        }
        let reason = self.header(REASON).filter(|reason| !reason.trim().is_empty()).ok_or_else(Problem::no_reason)?;
        Ok(self.nagaya.operator(reason, &self.principal(self.caller.tenant.clone().unwrap_or_default())))
    }

    /// The handle of somebody who is not known, whoever asks: it reads what is public.
    pub fn visitor(&self) -> Visitor {
        self.nagaya.visitor(self.principal(Arc::default()))
    }

    /// The handle of a tenant who is not the caller, for what that tenant has opened to others, such as by a link: the handler
    /// is the one to see that it is nothing else. Unlike with an operator's handle, reading leaves no trace, so that what many
    /// read does not grow what is stored.
    pub fn on_behalf_of(&self, tenant: &str) -> Result<Tenant, Problem> {
        Ok(self.nagaya.enter(self.principal(tenant.into()))?)
    }

    /// The handle of the system itself, for what a handler does on nobody's behalf; audited with this reason.
    pub fn system(&self, reason: &str) -> Operator {
        self.nagaya.operator(reason, &self.principal(self.caller.tenant.clone().unwrap_or_default()))
    }

    /// A page of an access pattern, by the parameters that the request gives; `besides` names those that are not the access
    /// pattern's own.
    pub async fn list(&self, access: &str, besides: &[&str]) -> Result<Page, Problem> {
        let access = self.design().access(access).ok_or_else(Problem::not_found)?;
        derived::page(self, access, besides).await
    }

    /// What `If-Match` expects of the item of an entity that the path names.
    pub async fn expected(&self, entity: &str) -> Result<Expected, Problem> {
        let Some(header) = self.header("if-match") else { return Ok(Expected::Any) };
        if header.trim() == "*" {
            return Ok(Expected::Any);
        }
        let versioned = self.design().entity(entity).is_some_and(|entity| entity.version.is_some());
        if versioned
            && let [tag] = header.split(',').map(str::trim).collect::<Vec<_>>().as_slice()
            && let Some(version) = version_in(tag)
        {
            return Ok(Expected::Version(version));
        }
        // Several tags, or one of what an item without a version holds: whichever the item has now is the expected one.
        let current = self.reader()?.get(entity, &self.id()).await?;
        self.knows(&current)?;
        Ok(Expected::from(&current))
    }

    /// Refuses to go on with an item that is not the one that `If-Match` names.
    pub fn knows(&self, record: &Record) -> Result<(), Problem> {
        match self.header("if-match") {
            Some(header) if !names(header, &tag(record), false) => {
                let detail = "The item has changed: read it again, and send its new `ETag`.";
                Err(Problem::new(StatusCode::PRECONDITION_FAILED, "version_conflict", detail))
            }
            _ => Ok(()),
        }
    }

    /// The caller's key for this request: the same key and body, the same answer.
    pub fn idempotency_key(&self) -> Result<Option<&str>, Problem> {
        let Some(key) = self.headers.get("idempotency-key") else { return Ok(None) };
        let refused = |why: &str| {
            Problem::bad_request("bad_idempotency_key", "The key has to be 1 to 255 printable characters.")
                .parameter("Idempotency-Key", why)
        };
        match key.to_str() {
            Ok(key) if (1..=255).contains(&key.len()) => Ok(Some(key)),
            Ok(_) => Err(refused("Is too long, or empty.")),
            Err(_) => Err(refused("Is not printable.")),
        }
    }

    fn principal(&self, tenant: Arc<str>) -> Principal {
        Principal {
            tenant,
            user: Arc::clone(&self.caller.user),
            roles: Arc::clone(&self.caller.roles),
            request: Some(Arc::clone(&self.origin.request)),
            address: self.origin.address.clone(),
        }
    }

    /// The handle that the route writes with.
    pub(crate) fn handle(&self) -> Result<Handle, Problem> {
        match self.route.reach {
            Reach::Operator => self.operator().map(Handle::Operator),
            _ => self.tenant().map(Handle::Tenant),
        }
    }

    /// The handle that the route reads with.
    pub(crate) fn reader(&self) -> Result<Reader, Problem> {
        match self.route.reach {
            Reach::Tenant => self.tenant().map(Reader::Tenant),
            Reach::Operator => self.operator().map(Reader::Operator),
            Reach::Public | Reach::Anyone if self.caller.tenant.is_some() => self.tenant().map(Reader::Tenant),
            Reach::Public | Reach::Anyone => Ok(Reader::Visitor(self.visitor())),
        }
    }
}

/// The version in a tag like `"v3"`.
fn version_in(tag: &str) -> Option<i64> {
    tag.strip_prefix("\"v")?.strip_suffix('"')?.parse().ok()
}

/// A handle that writes.
#[derive(Debug)]
pub(crate) enum Handle {
    Tenant(Tenant),
    Operator(Operator),
}

/// A handle that reads.
#[derive(Debug)]
pub(crate) enum Reader {
    Tenant(Tenant),
    Operator(Operator),
    Visitor(Visitor),
}

impl Reader {
    pub(crate) async fn get(&self, entity: &str, id: &[&str]) -> Result<Record, Error> {
        match self {
            Reader::Tenant(handle) => handle.get(entity, id).await,
            Reader::Operator(handle) => handle.get(entity, id).await,
            Reader::Visitor(handle) => handle.get(entity, id).await,
        }
    }

    pub(crate) async fn list(&self, list: &List) -> Result<Page, Error> {
        match self {
            Reader::Tenant(handle) => handle.list(list).await,
            Reader::Operator(handle) => handle.list(list).await,
            Reader::Visitor(handle) => handle.list(list).await,
        }
    }
}
