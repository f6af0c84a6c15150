//! One story of the product, told over HTTP: whatever is below, the answers are the same.

mod applications;
mod mail;
mod news;
mod people;
mod policy;
mod standing;
mod tasks;
mod trail;
mod work;

use serde_json::Value as Json;

use nagaya_testing::TestServer;

/// Tells all of it; everything that was said is in the server's transcript.
pub(crate) fn tell(server: &TestServer) {
    applications::tell(server);
    people::tell(server);
    work::tell(server);
    mail::tell(server);
    tasks::tell(server);
    news::tell(server);
    policy::tell(server);
    trail::tell(server);
    standing::tell(server);
}

/// One field of each item in a list.
fn each<'l>(list: &'l [Json], field: &str) -> Vec<&'l str> {
    list.iter().map(|item| item[field].as_str().unwrap_or("-")).collect()
}
