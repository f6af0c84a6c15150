//! The extension: checks before the derived routes, a cache that is cleared after them, and the custom routes.

use std::{future::Future, sync::Arc};

use axum::http::Method;
use nagaya_design::{Design, Reach, Verb};
use nagaya_server::{
    Answer, Call, CustomRoute, Document, Extension, ExtensionFuture, Problem, RequestBody as _, RequiredCaller,
};
use nagaya_store::Clock;
use nagaya_tenancy::IdGenerator;
use serde_json::{Value as Json, json};

use crate::{applications, invitations, mails, policy, tenant_status::TenantStatusCache, tenants};

/// What the handlers share.
pub(crate) struct AppState {
    design: Design,
    pub(crate) clock: Clock,
    pub(crate) ids: IdGenerator,
    pub(crate) tenant_statuses: TenantStatusCache,
}

impl AppState {
    pub(crate) fn new(design: Design, clock: Clock, ids: IdGenerator) -> Self {
        AppState { design, clock, ids, tenant_statuses: TenantStatusCache::default() }
    }

    /// The time, as a value of a timestamp field.
    pub(crate) fn now(&self, entity: &str, field: &str) -> Json {
        let field = self.design.entity(entity).and_then(|entity| entity.field(field));
        field.and_then(|field| field.timestamp_value(self.clock.millis())).unwrap_or_default()
    }

    async fn check(&self, call: &mut Call) -> Result<Option<Answer>, Problem> {
        let Some((entity, verb)) = call.subject().map(|(entity, verb)| (entity.to_owned(), verb)) else {
            return Ok(None);
        };
        // The caller's tenant is enabled, and its policy allows this. Routes of operators belong to no tenant.
        if call.route.required_caller != RequiredCaller::Operator && call.caller.tenant.is_some() {
            let status = self.tenant_statuses.get(call).await?;
            if status.authorize(call.design(), &call.caller.roles, &entity, verb)? == Reach::Own {
                call.limit_to_own_items();
            }
        }
        match (entity.as_str(), verb) {
            ("email_message", Verb::Create) => mails::set_owner(call).await?,
            ("permission_policy", Verb::Create | Verb::Update) => policy::validate(call.design(), &call.body)?,
            _ => {}
        }
        Ok(None)
    }
}

/// The extension of the system.
pub(crate) struct AiagentExtension(pub(crate) Arc<AppState>);

impl AiagentExtension {
    /// A custom route whose handler gets the state.
    fn route<F, A>(&self, method: Method, path: &str, summary: &str, handler: F) -> CustomRoute
    where
        F: Fn(Arc<AppState>, Arc<Call>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Answer, Problem>> + Send + 'static,
    {
        let state = Arc::clone(&self.0);
        CustomRoute::new(method, path, summary, move |call| handler(Arc::clone(&state), call))
    }
}

impl Extension for AiagentExtension {
    fn routes(&self) -> Vec<CustomRoute> {
        let design = &self.0.design;
        let application = || Some(json!({ "$ref": "#/components/schemas/TenantApplication" }));
        let tenant = || Some(json!({ "$ref": "#/components/schemas/Tenant" }));
        let users = json!({ "type": "array", "items": { "$ref": "#/components/schemas/User" } });
        vec![
            self.route(Method::POST, "/tenant-applications", "Applies for a tenant.", applications::submit)
                .caller(RequiredCaller::Anyone)
                .body(applications::NewApplication::schema(design))
                .answers(201, application()),
            self.route(
                Method::POST,
                "/tenant-applications/{applicationId}/approve",
                APPROVE_SUMMARY,
                applications::approve,
            )
            .caller(RequiredCaller::Operator)
            .requires_permission("tenant_application", Verb::Update)
            .body(applications::ApplicationApproval::schema(design))
            .answers(200, application()),
            self.route(
                Method::POST,
                "/tenant-applications/{applicationId}/reject",
                REJECT_SUMMARY,
                applications::reject,
            )
            .caller(RequiredCaller::Operator)
            .requires_permission("tenant_application", Verb::Update)
            .body(applications::Rejection::schema(design))
            .answers(200, application()),
            self.route(Method::GET, "/all-tenants/{tenantId}", "Reads any tenant.", tenants::read)
                .caller(RequiredCaller::Operator)
                .requires_permission("tenant", Verb::Read)
                .answers(200, tenant()),
            self.route(Method::PATCH, "/all-tenants/{tenantId}", CHANGE_SUMMARY, tenants::change)
                .caller(RequiredCaller::Operator)
                .requires_permission("tenant", Verb::Update)
                .body(tenants::TenantChange::schema(design))
                .answers(200, tenant()),
            self.route(Method::DELETE, "/all-tenants/{tenantId}", CLOSE_SUMMARY, tenants::close)
                .caller(RequiredCaller::Operator)
                .requires_permission("tenant", Verb::Delete)
                .answers(204, None),
            self.route(Method::POST, "/invitations/{tokenId}/accept", ACCEPT_SUMMARY, invitations::accept)
                .caller(RequiredCaller::Anyone)
                .body(invitations::Acceptance::schema(design))
                .answers(200, Some(json!({ "$ref": "#/components/schemas/User" }))),
            self.route(Method::GET, "/me/tenants", MEMBERSHIPS_SUMMARY, tenants::list_own_memberships)
                .caller(RequiredCaller::Anyone)
                .answers(200, Some(users)),
        ]
    }

    fn customize_openapi(&self, document: &mut Document) {
        // The roles and permissions that a policy can name.
        document.narrow_field("permission_policy", "roles", &policy::schema(&self.0.design));
    }

    fn before<'a>(&'a self, call: &'a mut Call) -> ExtensionFuture<'a, Result<Option<Answer>, Problem>> {
        Box::pin(self.0.check(call))
    }

    fn after<'a>(&'a self, call: &'a Call, _: &'a mut Answer) -> ExtensionFuture<'a, Result<(), Problem>> {
        // The next request to this process uses what was just written. Other processes do when their cached status expires.
        if let (Some(("tenant" | "permission_policy", Verb::Create | Verb::Update | Verb::Delete)), Some(tenant)) =
            (call.subject(), &call.caller.tenant)
        {
            self.0.tenant_statuses.invalidate(tenant);
        }
        Box::pin(async { Ok(()) })
    }
}

const APPROVE_SUMMARY: &str = "Approves an application: creates the tenant, its first user and its permission policy.";
const REJECT_SUMMARY: &str = "Rejects an application.";
const MEMBERSHIPS_SUMMARY: &str = "Lists the caller's user record in each tenant whose invitation they have accepted.";
const ACCEPT_SUMMARY: &str = "Accepts an invitation: the caller becomes a member of the tenant.";
const CLOSE_SUMMARY: &str = "Closes a tenant for good. Its items and its id stay.";
const CHANGE_SUMMARY: &str = "Changes a tenant's name or plan, disables or enables it.";
