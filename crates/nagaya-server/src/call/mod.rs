//! One request: its caller, its parameters, and the handles to the data.

mod list;

use std::sync::Arc;

use axum::http::HeaderMap;
use bytes::Bytes;
use nagaya_design::{Design, Entity, Field, FieldError, Verb};
use nagaya_tenancy::{
    ChangeSet, Error, Expected, IdGenerator, List, Nagaya, Operator, Page, Principal, Record, Tenant, Visitor,
    is_reason,
};
use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::{
    Caller, Problem, ProblemCode,
    answer::{etag_matches, tag},
    route::{RequiredCaller, Route},
};

/// Calls the same method of either handle that writes.
macro_rules! with_handle {
    ($handle:expr, $name:ident => $call:expr) => {
        match $handle {
            $crate::call::WriteHandle::Tenant($name) => $call,
            $crate::call::WriteHandle::Operator($name) => $call,
        }
    };
}
pub(crate) use with_handle;

/// The header in which an operator gives a reason.
pub const REASON_HEADER: &str = "nagaya-reason";

/// A request whose caller is authenticated and authorized.
#[derive(Debug)]
pub struct Call {
    pub(crate) nagaya: Nagaya,
    /// The path that the system is mounted at: `/todo`, or nothing at the root.
    pub(crate) mount: Arc<str>,
    /// The route that it matched.
    pub route: Arc<Route>,
    /// The caller.
    pub caller: Arc<Caller>,
    /// Its ids, and the address that it came from.
    pub origin: RequestOrigin,
    /// The values of the path's parameters, in the order of the route's [names](Route::parameters).
    pub path: Vec<String>,
    /// The parameters of the query, in order.
    pub query: Vec<(String, String)>,
    /// The headers.
    pub headers: HeaderMap,
    /// The body's fields; none where there is no body.
    pub body: Map<String, Json>,
    /// The body as it was sent; empty unless the route [keeps it](crate::CustomRoute::keeps_raw_body).
    pub raw_body: Bytes,
    /// Whether the tenant's handle is limited to the caller's own items.
    pub(crate) own_items_only: bool,
}

/// The ids of a request, and the address that it came from.
#[derive(Debug, Clone, Default)]
pub struct RequestOrigin {
    /// The id of the request, made here unless the caller gave one.
    pub request: Arc<str>,
    /// The id that all requests and events of one user action share.
    pub correlation: Arc<str>,
    /// What caused the request, if the caller says so.
    pub causation: Option<Arc<str>>,
    /// The id of the trace that it belongs to, if a load balancer, a gateway or AWS Lambda says so.
    pub trace: Option<Arc<str>>,
    /// The address that it came from.
    pub address: Option<Arc<str>>,
}

impl Call {
    /// The design that is served.
    pub fn design(&self) -> &Design {
        self.nagaya.design()
    }

    /// The time, in milliseconds since 1970.
    pub fn now_millis(&self) -> i64 {
        self.nagaya.clock().millis()
    }

    /// The time, as a value of a timestamp field.
    pub fn timestamp_now(&self, entity: &str, field: &str) -> Json {
        self.timestamp(entity, field, self.now_millis())
    }

    /// A time in milliseconds since 1970, as a value of a timestamp field.
    pub fn timestamp(&self, entity: &str, field: &str, millis: i64) -> Json {
        let field = self.design().entity(entity).and_then(|entity| entity.field(field));
        field.and_then(|field| field.timestamp_value(millis)).unwrap_or_default()
    }

    /// The generator of ids.
    pub fn ids(&self) -> IdGenerator {
        self.nagaya.ids()
    }

    /// The value of `Location` for a path below the design's prefix.
    pub fn location(&self, path: &str) -> String {
        format!("{}{}{path}", self.mount, self.design().http_prefix)
    }

    /// The value of `Location` for an item.
    pub(crate) fn location_of(&self, entity: &Entity, record: &Record) -> String {
        let mut path = entity.path.clone();
        for part in record.id() {
            path.push('/');
            path.extend(percent_encoding::utf8_percent_encode(&part, SEGMENT));
        }
        self.location(&path)
    }

    /// Refuses the body of a derived route that has fields which only the layer sets. The extension may add them later.
    pub(crate) fn reject_fields_of_the_layer(&self) -> Result<(), Problem> {
        let fields = self.route.subject(self.design()).map_or(&[][..], |(entity, _)| &entity.fields);
        let given = fields.iter().filter(|field| self.body.contains_key(&field.name));
        let error = |field: &Field| Some(FieldError { path: field.name.clone(), message: field.why_not_writable()? });
        let errors: Vec<_> = given.filter_map(error).collect();
        Problem::check_fields(errors)
    }

    /// A parameter of the query.
    pub fn query_parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(each, _)| each == name).map(|(_, value)| value.as_str())
    }

    /// A parameter of the path.
    pub fn path_parameter(&self, name: &str) -> Option<&str> {
        self.route.parameters().zip(&self.path).find(|(each, _)| *each == name).map(|(_, value)| value.as_str())
    }

    /// Parameters of the path by their names; empty for a name that the route does not have.
    pub fn path_parameters<const N: usize>(&self, names: [&str; N]) -> [&str; N] {
        names.map(|name| self.path_parameter(name).unwrap_or_default())
    }

    /// The id in the path.
    pub(crate) fn id(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    /// A header that is readable text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The entity and the verb of the route; `None` for custom routes.
    pub fn subject(&self) -> Option<(&str, Verb)> {
        self.route.subject(self.design()).map(|(entity, verb)| (entity.name.as_str(), verb))
    }

    /// Limits the tenant's handle to the caller's own items, of all entities that name an owner.
    pub fn limit_to_own_items(&mut self) {
        self.own_items_only = true;
    }

    /// The handle of the caller's tenant, limited to own items where the caller's roles are.
    pub fn tenant(&self) -> Result<Tenant, Problem> {
        let no_tenant = || Problem::forbidden("The token names no tenant.");
        let tenant = self.caller.tenant.as_ref().ok_or_else(no_tenant)?;
        let tenant = self.nagaya.tenant_owned(self.principal(Arc::clone(tenant)))?;
        Ok(if self.own_items_only { tenant.limited_to_own_items() } else { tenant.limited_by_roles() })
    }

    /// The handle of an operator: the caller's roles have to allow it, and the request has to state a reason.
    pub fn operator(&self) -> Result<Operator, Problem> {
        if !self.caller.is_operator(self.design()) {
            return Err(Problem::operators_only(self.design(), &self.caller));
        }
        let reason = self.header(REASON_HEADER).filter(|reason| is_reason(reason)).ok_or_else(Problem::no_reason)?;
        Ok(self.nagaya.operator(reason.trim(), &self.principal(Arc::default())))
    }

    /// The handle of a visitor, for any caller: it reads what is public.
    pub fn visitor(&self) -> Visitor {
        self.nagaya.visitor(self.principal(Arc::default()))
    }

    /// The handle of another tenant, for what that tenant shares with others, such as by a link. The handler has to make sure
    /// that it reads nothing else. Unlike with an operator's handle, reads are not audited: what many callers read must not
    /// grow the store.
    pub fn on_behalf_of(&self, tenant: &str) -> Result<Tenant, Problem> {
        Ok(self.nagaya.tenant_owned(self.principal(tenant.into()))?)
    }

    /// A page of the caller's own items in all tenants, as [`Nagaya::list_own`] gives it: those whose `field` is the caller's user
    /// id. It leaves no entry in the operator log.
    pub async fn list_own(&self, field: &str, list: &List) -> Result<Page, Problem> {
        Ok(self.nagaya.list_own(&self.principal(Arc::default()), field, list).await?)
    }

    /// A handle that reaches what an operator reaches, and is not audited, as [`Nagaya::unaudited_operator`] gives it: for what a
    /// route does for a caller who is no operator.
    pub fn unaudited_operator(&self) -> Operator {
        self.nagaya.unaudited_operator(&self.principal(self.caller.tenant.clone().unwrap_or_default()))
    }

    /// What `If-Match` expects of the item of an entity that the path names.
    pub async fn expected_version(&self, entity: &str) -> Result<Expected, Problem> {
        let Some(header) = self.if_match()? else { return Ok(Expected::Any) };
        if header.trim() == "*" {
            return Ok(Expected::Any);
        }
        // No tag of an item without a version looks like a version.
        if let [tag] = header.split(',').map(str::trim).collect::<Vec<_>>().as_slice()
            && let Some(version) = version_in(tag)
        {
            return Ok(Expected::Version(version));
        }
        // Several tags, or the tag of an item without a version: compare them with the current item.
        let current = self.read_handle()?.get(entity, &self.id()).await?;
        self.check_if_match(&current)?;
        Ok(Expected::from(&current))
    }

    /// The header `If-Match`. A tag without quotes equals no tag, and must not look like a conflict.
    fn if_match(&self) -> Result<Option<&str>, Problem> {
        match self.header("if-match") {
            Some(header) if !is_tag_list(header) => {
                let detail = "`If-Match` has to be the `ETag` of the item with its quotes, such as `\"v2\"`, or `*`.";
                Err(Problem::from_code(ProblemCode::BAD_IF_MATCH, detail))
            }
            header => Ok(header),
        }
    }

    /// Refuses an item that is not the version that `If-Match` names.
    pub fn check_if_match(&self, record: &Record) -> Result<(), Problem> {
        match self.if_match()? {
            Some(header) if !etag_matches(header, &tag(record), false) => {
                let detail = "The item has changed: read it again, and send its new `ETag`.";
                Err(Problem::from_code(ProblemCode::VERSION_CONFLICT, detail))
            }
            _ => Ok(()),
        }
    }

    /// The idempotency key: the same key and body give the same answer.
    pub fn idempotency_key(&self) -> Result<Option<&str>, Problem> {
        let Some(key) = self.headers.get("idempotency-key") else { return Ok(None) };
        let refused = |why: &str| {
            Problem::from_code(ProblemCode::BAD_IDEMPOTENCY_KEY, "The key has to be 1 to 255 printable characters.")
                .with_parameter("Idempotency-Key", why)
        };
        match key.to_str() {
            Ok(key) if (1..=255).contains(&key.len()) => Ok(Some(key)),
            Ok(_) => Err(refused("Is too long, or empty.")),
            Err(_) => Err(refused("Is not printable.")),
        }
    }

    /// With an idempotency key, makes a change set one that happens once; `request` tells a repeated request from another one.
    pub fn idempotent(&self, set: ChangeSet, request: impl Serialize) -> Result<ChangeSet, Problem> {
        // JSON maps are sorted, and always serialize.
        let request = || serde_json::to_vec(&request).unwrap_or_default();
        Ok(match self.idempotency_key()? {
            Some(key) => set.idempotent(key, &request()),
            None => set,
        })
    }

    fn principal(&self, tenant: Arc<str>) -> Principal {
        Principal {
            tenant,
            user: Arc::clone(&self.caller.user),
            issuer: (!self.caller.is_visitor()).then(|| Arc::clone(&self.caller.issuer)),
            roles: Arc::clone(&self.caller.roles),
            request: Some(Arc::clone(&self.origin.request)),
            address: self.origin.address.clone(),
        }
    }

    /// The handle that the route needs for writing.
    pub(crate) fn write_handle(&self) -> Result<WriteHandle, Problem> {
        match self.route.required_caller {
            RequiredCaller::Operator => self.operator().map(WriteHandle::Operator),
            _ => self.tenant().map(WriteHandle::Tenant),
        }
    }

    /// The handle that the route needs for reading.
    pub(crate) fn read_handle(&self) -> Result<ReadHandle, Problem> {
        match self.route.required_caller {
            RequiredCaller::Tenant => self.tenant().map(ReadHandle::Tenant),
            RequiredCaller::Operator => self.operator().map(ReadHandle::Operator),
            RequiredCaller::Public | RequiredCaller::Anyone if self.caller.tenant.is_some() => {
                self.tenant().map(ReadHandle::Tenant)
            }
            RequiredCaller::Public | RequiredCaller::Anyone | RequiredCaller::Unauthenticated => {
                Ok(ReadHandle::Visitor(self.visitor()))
            }
        }
    }
}

/// Characters that are escaped in a segment of a path.
const SEGMENT: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':').remove(b'@');

/// The version in a tag like `"v3"`.
fn version_in(tag: &str) -> Option<i64> {
    tag.strip_prefix("\"v")?.strip_suffix('"')?.parse().ok()
}

/// Whether a header is `*` or a list of entity tags (RFC 9110, section 8.8.3).
fn is_tag_list(header: &str) -> bool {
    let mut rest = header.trim();
    if rest == "*" {
        return true;
    }
    loop {
        let tag = rest.strip_prefix("W/").unwrap_or(rest);
        let Some((_, after)) = tag.strip_prefix('"').and_then(|tag| tag.split_once('"')) else { return false };
        match after.trim_start() {
            "" => return true,
            after => match after.strip_prefix(',') {
                Some(next) => rest = next.trim_start(),
                None => return false,
            },
        }
    }
}

/// A handle that writes.
#[derive(Debug)]
pub(crate) enum WriteHandle {
    Tenant(Tenant),
    Operator(Operator),
}

/// A handle that reads.
#[derive(Debug)]
pub(crate) enum ReadHandle {
    Tenant(Tenant),
    Operator(Operator),
    Visitor(Visitor),
}

impl ReadHandle {
    pub(crate) async fn get(&self, entity: &str, id: &[&str]) -> Result<Record, Error> {
        match self {
            ReadHandle::Tenant(handle) => handle.get(entity, id).await,
            ReadHandle::Operator(handle) => handle.get(entity, id).await,
            ReadHandle::Visitor(handle) => handle.get(entity, id).await,
        }
    }

    pub(crate) async fn list(&self, list: &List) -> Result<Page, Error> {
        match self {
            ReadHandle::Tenant(handle) => handle.list(list).await,
            ReadHandle::Operator(handle) => handle.list(list).await,
            ReadHandle::Visitor(handle) => handle.list(list).await,
        }
    }
}
