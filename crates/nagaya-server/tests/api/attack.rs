//! The attack suite through HTTP: every route of the designs, called from the wrong side of the wall.

use nagaya_design::Verb;
use nagaya_server::{System, routes};
use nagaya_testing::{HttpGateway, TestServer, system_design};

async fn attack(system: &str) {
    HttpGateway::plain().attack(&system_design(system)).await;
}

/// Proves the HTTP part of N3.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn no_attack_crosses_the_walls_of_aiagent_in_one_table() {
    attack("aiagent/single").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn no_attack_crosses_the_walls_of_aiagent_in_twelve_tables() {
    attack("aiagent/multi").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn no_attack_crosses_the_walls_of_todo() {
    attack("todo/todo").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn no_attack_crosses_the_walls_of_kondate() {
    attack("kondate/kondate").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn no_attack_crosses_the_walls_of_management() {
    attack("management/management").await;
}

/// Verdicts, authors and counters are the server's: no body sets them, in no system.
#[test]
fn no_route_accepts_fields_that_the_server_sets() {
    for system in ["aiagent/single", "aiagent/multi", "todo/todo", "kondate/kondate", "management/management"] {
        let design = system_design(system);
        let roles: Vec<_> = design.roles.iter().map(|role| role.name.clone()).take(1).collect();
        let roles: Vec<_> = roles.iter().map(String::as_str).collect();
        let routes = routes(&design);
        let creates = routes.iter().filter(|route| route.parameters().next().is_none());
        let server = TestServer::in_memory(System::plain(design.clone()));
        let client = server.user_with("t1", "u1", &roles);
        let mut tried = 0;
        for route in creates {
            let Some((entity, Verb::Create)) = route.subject(&design) else { continue };
            for field in entity.fields.iter().filter(|field| field.why_not_writable().is_some()) {
                let answer = client.post(&route.path, &serde_json::json!({ field.name.as_str(): "x" }));
                if answer.status == 403 {
                    continue;
                }
                let pointers = answer.expect_problem(422, "invalid");
                let pointer = format!("/{}", field.name);
                assert!(pointers.contains(&pointer), "{system} {}: {} is accepted", route.path, field.name);
                tried += 1;
            }
        }
        assert!(tried > 0 || system == "todo/todo", "{system}: nothing was tried");
    }
}

/// Proves the public part of N3: a visitor sees what is public, and nothing of a tenant's own items.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn no_attack_without_a_token_crosses_the_walls_of_kondate() {
    HttpGateway::plain().without_token().attack(&system_design("kondate/kondate")).await;
}
