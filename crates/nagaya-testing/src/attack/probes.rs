//! Attacks that exist over HTTP only. They have no effect, so they are made once, before the others.

use std::sync::Arc;

use nagaya_attack::{FurtherRoute, UNSUPPORTED};
use nagaya_design::{Entity, Verb};
use nagaya_server::{Operation, RequiredCaller, Route};
use serde_json::json;

use super::{
    client::{HttpClient, Request, Unsound},
    positional,
};

impl HttpClient {
    pub(super) fn probe(&self) {
        self.probe_operator_routes();
        self.probe_missing_routes();
        self.probe_fields_of_the_server();
        self.probe_repeated_headers();
        self.probe_repeated_members();
    }

    /// What is for operators is refused to a tenant, also if its token has their roles.
    fn probe_operator_routes(&self) {
        for route in self.served.iter().filter(|route| route.required_caller == RequiredCaller::Operator) {
            let values = values_of(route);
            for token in [self.token.as_ref(), Some(&self.as_operator)] {
                let refused = self.send_with(token.map(String::as_str), &Request { values: &values, ..request(route) });
                let is_refused = matches!(refused.code.as_str(), "walled" | UNSUPPORTED);
                assert!(is_refused, "{} {}: {}", route.method, route.path, refused.text);
            }
        }
    }

    /// What callers only read, such as logs, they cannot write by a method that is not among its routes.
    fn probe_missing_routes(&self) {
        for entity in self.design.entities.iter().filter(|entity| self.has_routes(entity)) {
            let (collection, item) = (self.below_prefix(&entity.path), self.below_prefix(&entity.item_path()));
            for (method, path) in [("POST", &collection), ("PUT", &item), ("PATCH", &item), ("DELETE", &item)] {
                let is_there =
                    |route: &Arc<Route>| route.method == method && positional(&route.path) == positional(path);
                if self.served.iter().any(is_there) {
                    continue;
                }
                let values = vec!["x".to_owned(); path.matches('{').count()];
                let body = (method != "DELETE").then(|| json!({}));
                let request = Request { method, path, values: &values, body: body.as_ref(), ..Request::default() };
                let refused = self.send(&request);
                assert!(
                    matches!(refused.code.as_str(), "not_found" | UNSUPPORTED),
                    "{method} {path}: {}",
                    refused.text
                );
            }
        }
    }

    /// No body sets a field that the server sets: an author, a verdict or a counter.
    fn probe_fields_of_the_server(&self) {
        for route in &self.served {
            let Some((entity, verb @ (Verb::Create | Verb::Update))) = route.subject(&self.design) else { continue };
            for field in entity.fields.iter().filter(|field| field.why_not_writable().is_some()) {
                let body = json!({ field.name.as_str(): "x" });
                let values = values_of(route);
                let refused = self.send(&Request { values: &values, body: Some(&body), ..request(route) });
                let is_named = refused.text.contains(&format!("\"/{}\"", field.name));
                // An item that does not exist, or a route that is not for this caller, has no fields to complain about.
                let is_refused = matches!(refused.code.as_str(), "not_found" | "walled" | UNSUPPORTED);
                assert!(is_named || is_refused, "{verb} {}: {} is accepted: {}", route.path, field.name, refused.text);
            }
        }
    }

    /// A proxy in front may have read the other header.
    fn probe_repeated_headers(&self) {
        let bearer = format!("Bearer {}", self.token.as_ref().unwrap_or(&self.as_operator));
        let token = self.token.as_deref();
        for (name, value, token) in [("authorization", bearer.as_str(), None), ("idempotency-key", "x", token)] {
            for route in &self.served {
                let (values, unsound) = (values_of(route), Some(Unsound::Header(name, value)));
                let refused = self.send_with(token, &Request { values: &values, unsound, ..request(route) });
                let is_refused = refused.code == "repeated_header" && refused.text.starts_with("\n400 ");
                assert!(is_refused, "{} {} with two of `{name}`: {}", route.method, route.path, refused.text);
            }
        }
    }

    /// Whoever checks the body before the server may have read the other member.
    fn probe_repeated_members(&self) {
        for route in self.served.iter().filter(|route| self.takes_body(route)) {
            let values = values_of(route);
            for text in [r#"{"x":1,"x":1}"#, r#"{"x":{"y":1,"\u0079":2}}"#] {
                let unsound = Some(Unsound::Body(text));
                let refused = self.send(&Request { values: &values, unsound, ..request(route) });
                let is_bad = refused.code == "bad_body" && refused.text.starts_with("\n400 ");
                // A route that is not for this caller reads no body.
                let is_for_others = self.token.is_none() || route.required_caller == RequiredCaller::Operator;
                let is_refused = is_for_others && matches!(refused.code.as_str(), "walled" | UNSUPPORTED);
                assert!(is_bad || is_refused, "{} {} with {text}: {}", route.method, route.path, refused.text);
            }
        }
    }

    fn takes_body(&self, route: &Route) -> bool {
        let is_same = |each: &&FurtherRoute| each.method == route.method.as_str() && each.path == route.path;
        match route.operation {
            Operation::Create(_) | Operation::Update(_) => true,
            Operation::Custom(_) => self.further_routes.iter().find(is_same).is_some_and(|each| each.body.is_some()),
            Operation::Read(_) | Operation::Delete(_) | Operation::List(_) | Operation::OperatorLog => false,
        }
    }

    fn has_routes(&self, entity: &Entity) -> bool {
        self.routes.iter().any(|route| route.subject(&self.design).is_some_and(|(each, _)| each.name == entity.name))
    }

    fn below_prefix(&self, path: &str) -> String {
        format!("{}{path}", self.design.http_prefix)
    }
}

fn values_of(route: &Route) -> Vec<String> {
    vec!["x".to_owned(); route.parameters().count()]
}

fn request(route: &Route) -> Request<'_> {
    Request { method: route.method.as_str(), path: &route.path, ..Request::default() }
}
