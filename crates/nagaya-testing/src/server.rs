//! A system that is served on a loopback port.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use nagaya_server::{Claims, Grant, Issuer, Limits, LocalIssuer, MountedSystem, Revocations, Server, System, Verifier};
use nagaya_store::{Clock, Store};
use nagaya_tenancy::{Nagaya, Settings};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    sync::oneshot,
    task::JoinHandle,
};

use crate::{Client, Connection, Exchange, ManualClock, memory_store};

/// A system that is served until this is dropped.
pub struct TestServer {
    /// The time of the store and of the data layer.
    pub clock: ManualClock,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The data layer that is served.
    pub nagaya: Nagaya,
    /// The system in the server.
    pub mounted: MountedSystem,
    /// The tokens that it refuses.
    pub revocations: Arc<Revocations>,
    /// The address that it listens on.
    pub address: SocketAddr,
    /// The same as a URL.
    pub url: String,
    /// The address of its metrics.
    pub admin_address: SocketAddr,
    name: String,
    issuer: Arc<LocalIssuer>,
    claims: Claims,
    pub(crate) http: ClientSettings,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<()>,
    runtime: Option<Runtime>,
}

/// What the clients of a server have in common.
pub(crate) struct ClientSettings {
    pub(crate) agent: ureq::Agent,
    pub(crate) path_prefix: &'static str,
    pub(crate) observer: Option<Observer>,
}

type Observer = Box<dyn Fn(&Exchange<'_>) + Send + Sync>;

/// Serves a system, with what differs from the default.
pub struct TestServerBuilder {
    system: System,
    store: Option<Arc<dyn Store>>,
    clock: ManualClock,
    token_clock: Clock,
    settings: Settings,
    limits: Limits,
    configure: Box<dyn FnOnce(&mut Server)>,
    makes_tables: bool,
    path_prefix: &'static str,
    observer: Option<Observer>,
}

impl TestServer {
    /// Serves a system on a store in memory.
    pub fn in_memory(system: System) -> Self {
        TestServer::builder(system).start()
    }

    /// Serves a system with what differs from the default: a store in memory and its tables, a clock that only the test moves,
    /// default limits except for the rate of a tenant.
    pub fn builder(system: System) -> TestServerBuilder {
        TestServerBuilder {
            system,
            store: None,
            clock: ManualClock::default(),
            token_clock: Clock::system(),
            settings: Settings::default(),
            limits: Limits { tenant_rate: 0, ..Limits::default() },
            configure: Box::new(|_| ()),
            makes_tables: true,
            path_prefix: "",
            observer: None,
        }
    }

    /// Runs a future on the server's own runtime.
    ///
    /// # Panics
    ///
    /// When the server runs on the runtime of its test.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.as_ref().expect("the server has its own runtime").block_on(future)
    }

    /// A token of a user with these roles.
    pub fn token(&self, tenant: Option<&str>, user: &str, roles: &[&str]) -> String {
        self.token_with(&self.claims, tenant, user, roles)
    }

    /// The same with other names of the claims.
    pub fn token_with(&self, claims: &Claims, tenant: Option<&str>, user: &str, roles: &[&str]) -> String {
        let roles: Vec<String> = roles.iter().map(|&role| role.to_owned()).collect();
        let member_of: Vec<String> = tenant.map(str::to_owned).into_iter().collect();
        let (audience, ttl) = (self.name.as_str(), Duration::from_secs(3_600));
        let grant = Grant { audience, claims, user, tenant, roles: &roles, member_of: &member_of, ttl };
        self.issuer.issue(&grant).expect("a token")
    }

    /// A client of a tenant's user.
    pub fn client_of_user(&self, tenant: &str, user: &str) -> Client<'_> {
        self.user_with(tenant, user, &[])
    }

    /// A client of a tenant's user with these roles.
    pub fn user_with(&self, tenant: &str, user: &str, roles: &[&str]) -> Client<'_> {
        self.client(Some(tenant), user, roles)
    }

    /// A client with a valid token that names no tenant.
    pub fn user_without_tenant(&self, user: &str) -> Client<'_> {
        self.client(None, user, &[])
    }

    /// A client of an operator, who gives a reason.
    pub fn client_of_operator(&self, user: &str) -> Client<'_> {
        self.client(None, user, &["operator"]).with_header("nagaya-reason", "a test of it")
    }

    /// A client without a token.
    pub fn anonymous_client(&self) -> Client<'_> {
        Client::new(self, "anonymous".to_owned(), None)
    }

    fn client(&self, tenant: Option<&str>, user: &str, roles: &[&str]) -> Client<'_> {
        let name = format!("{}/{user} {roles:?}", tenant.unwrap_or("-"));
        Client::new(self, name, Some(self.token(tenant, user, roles)))
    }

    /// A connection without a token.
    pub async fn connect(&self) -> Connection {
        connect(self.address).await
    }

    /// A connection to the listener of health, readiness and metrics.
    pub async fn connect_admin(&self) -> Connection {
        connect(self.admin_address).await
    }

    /// The metrics.
    pub async fn metrics(&self) -> String {
        self.connect_admin().await.get("/metrics").await.text
    }

    /// A connection with a token of a tenant's user.
    pub async fn connect_as(&self, tenant: &str, user: &str) -> Connection {
        self.connect().await.with_token(self.token(Some(tenant), user, &[]))
    }

    /// Tells the server to stop.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Whether it has not stopped yet.
    pub fn is_running(&self) -> bool {
        !self.running.is_finished()
    }

    /// Waits until it has stopped.
    pub async fn wait_until_stopped(self) {
        self.running.await.expect("it stops without a panic");
    }
}

impl TestServerBuilder {
    /// Serves on this store, which has this clock.
    #[must_use]
    pub fn store(self, store: Arc<dyn Store>, clock: &ManualClock) -> Self {
        TestServerBuilder { store: Some(store), clock: clock.clone(), ..self }
    }

    /// Issues and verifies tokens by this clock.
    #[must_use]
    pub fn token_clock(self, clock: &ManualClock) -> Self {
        TestServerBuilder { token_clock: clock.clock(), ..self }
    }

    /// Opens the data layer with these settings; their clock is the server's.
    #[must_use]
    pub fn settings(self, settings: Settings) -> Self {
        TestServerBuilder { settings, ..self }
    }

    /// Serves with these limits.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        TestServerBuilder { limits, ..self }
    }

    /// Changes the server before the system is mounted.
    #[must_use]
    pub fn configure(self, configure: impl FnOnce(&mut Server) + 'static) -> Self {
        TestServerBuilder { configure: Box::new(configure), ..self }
    }

    /// Does not create the tables.
    #[must_use]
    pub fn without_tables(self) -> Self {
        TestServerBuilder { makes_tables: false, ..self }
    }

    /// The paths of clients start after this prefix.
    #[must_use]
    pub fn path_prefix(self, path_prefix: &'static str) -> Self {
        TestServerBuilder { path_prefix, ..self }
    }

    /// Tells every request of [`Client::send`] and its response.
    #[must_use]
    pub fn observer(self, observer: impl Fn(&Exchange<'_>) + Send + Sync + 'static) -> Self {
        TestServerBuilder { observer: Some(Box::new(observer)), ..self }
    }

    /// Serves on a runtime of its own.
    pub fn start(self) -> TestServer {
        self.start_on(build_runtime())
    }

    /// Serves on a runtime on which the store was opened.
    pub fn start_on(self, runtime: Runtime) -> TestServer {
        let server = runtime.block_on(self.serve());
        TestServer { runtime: Some(runtime), ..server }
    }

    /// Serves on the current runtime.
    pub async fn serve(self) -> TestServer {
        let TestServerBuilder { system, clock, token_clock, settings, limits, .. } = self;
        let store = self.store.unwrap_or_else(|| memory_store(&clock));
        let issuer = LocalIssuer::in_memory().expect("an issuer").with_clock(token_clock.clone());
        let (issuer, revocations) = (Arc::new(issuer), Arc::<Revocations>::default());
        let (name, claims) = (system.name.clone(), Claims::from_design(&system.design));
        // Servers on one store share its operator log, and therefore its key.
        let settings = Settings { clock: clock.clock(), audit_keys: [7; 32].into(), ..settings };
        let nagaya = Nagaya::open_with(system.design.clone(), Arc::clone(&store), settings);
        if self.makes_tables {
            nagaya.ensure_tables().await.expect("the tables are made");
        }
        let verifier = Verifier::new(claims.clone(), token_clock)
            .trust(&Issuer::local(&issuer), name.as_str())
            .expect("one issuer");
        let verifier = verifier.revocations(&revocations);
        let mut server = Server::new(limits);
        (self.configure)(&mut server);
        let mounted = server.mount("", system, nagaya.clone(), verifier);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it has an address");
        let admin = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let admin_address = admin.local_addr().expect("it has an address");
        server.admin_listener(admin);
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(server.run(listener, async { drop(stopped.await) }));
        // One connection for each request: the server may close one whose request it refused early.
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_idle_connections(0)
            .allow_non_standard_methods(true)
            .timeout_global(Some(Duration::from_secs(60)));
        let http = ClientSettings {
            agent: ureq::Agent::new_with_config(agent.build()),
            path_prefix: self.path_prefix,
            observer: self.observer,
        };
        TestServer {
            clock,
            store,
            nagaya,
            mounted,
            revocations,
            address,
            url: format!("http://{address}"),
            admin_address,
            name,
            issuer,
            claims,
            http,
            stop: Some(stop),
            running,
            runtime: None,
        }
    }
}

async fn connect(address: SocketAddr) -> Connection {
    let stream = TcpStream::connect(address).await.expect("the server listens");
    // Requests are small: do not wait for more bytes to send.
    stream.set_nodelay(true).expect("a socket");
    Connection::over(stream).await
}

/// A runtime for a server.
pub fn build_runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}
