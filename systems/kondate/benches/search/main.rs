//! Compares search over HTTP with a list of 20: `cargo xtask bench search`.
//!
//! This process serves the system on an embedded store on disk, with recipes of one user and as many in the catalog.

mod recipes;

use std::{
    error::Error,
    fmt::Write as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use nagaya_design::{Design, check};
use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_kondate::{LocalPayments, SubscriptionPlans, catch_up, system};
use nagaya_server::{Claims, Grant, Issuer, Limits, LocalIssuer, Server, Verifier};
use nagaya_store::{Clock, Scan, Store, Value};
use nagaya_tenancy::{Nagaya, Principal, Settings};
use serde_json::{Value as Json, json};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const NAME: &str = "kondate";
/// Recipes of the user, and as many of the catalog.
const RECIPES: usize = 10_000;
/// The user.
const USER: &str = "u_01";
/// Creators in the catalog.
const CREATORS: usize = 50;
/// Recipes that are created concurrently.
const CONCURRENT_CREATES: usize = 50;
/// Different search queries of each length.
const QUERIES: usize = 300;
/// Rounds; each sends every query once, after a warm-up round.
const ROUNDS: usize = 3;
/// Lengths of search queries in characters.
const LENGTHS: [usize; 4] = [1, 2, 4, 8];

fn main() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let measured = runtime.block_on(measure())?;
    let arguments: Vec<String> = std::env::args().collect();
    let page = measured.page();
    if arguments.iter().any(|argument| argument == "--json") {
        println!("{:#}", measured.json());
    } else {
        println!("{page}");
    }
    match arguments.iter().position(|argument| argument == "--page").and_then(|at| arguments.get(at + 1)) {
        Some(path) => Ok(std::fs::write(path, page)?),
        None => Ok(()),
    }
}

fn design() -> Outcome<Design> {
    check(include_str!("../../design/kondate.toml"), &[]).design.ok_or_else(|| "the design is not sound".into())
}

async fn measure() -> Outcome<Measured> {
    // On the disk of the build directory, because a temporary directory may be in memory.
    let scratch =
        tempfile::Builder::new().prefix("bench-search-").tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR")))?;
    let load = std::fs::read_to_string("/proc/loadavg")?.split(' ').next().unwrap_or_default().to_owned();
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(scratch.path().join("store"), Options::default())?);
    let nagaya = Nagaya::open_with(design()?, Arc::clone(&store), Settings::default());
    nagaya.ensure_tables().await?;

    fill_book(&nagaya).await?;
    let own = indexed_per_second(&nagaya).await?;
    eprintln!("  the book is indexed, {own:.0} recipes/s");
    fill_catalog(&nagaya).await?;
    let catalog = indexed_per_second(&nagaya).await?;
    eprintln!("  the catalog is indexed, {catalog:.0} recipes/s");
    let postings = [count(&*store, "TERM#", false).await?, count(&*store, "TERM#", true).await?];
    let postings = postings.map(|count| count as f64 / RECIPES as f64);

    let site = Site::serve(nagaya).await?;
    let measured = tokio::task::spawn_blocking(move || {
        let mut figures = Vec::new();
        for (place, path, seed) in [("one's own", "/recipes", 0), ("catalog", "/catalog/recipes", RECIPES)] {
            figures.extend(site.measure_collection(place, path, seed)?);
        }
        Outcome::Ok(figures)
    });
    Ok(Measured { load, rates: [own, catalog], postings, figures: measured.await?? })
}

async fn fill_book(nagaya: &Nagaya) -> Outcome<()> {
    let user = nagaya.tenant(&Principal::new(USER, USER))?;
    for first in (0..RECIPES).step_by(CONCURRENT_CREATES) {
        let recipes = (first..first + CONCURRENT_CREATES).map(recipes::recipe);
        recipes.fold(user.change_set(), |set, recipe| set.create("recipe", recipe)).commit().await?;
    }
    Ok(())
}

/// Published one per minute.
async fn fill_catalog(nagaya: &Nagaya) -> Outcome<()> {
    for first in (0..RECIPES).step_by(CONCURRENT_CREATES) {
        let creator = format!("u_{:02}", first / CONCURRENT_CREATES % CREATORS);
        let tenant = nagaya.tenant(&Principal::new(creator.as_str(), creator.as_str()))?;
        let mut set = tenant.change_set();
        for n in first..first + CONCURRENT_CREATES {
            let mut recipe = recipes::recipe(RECIPES + n);
            let at =
                format!("2026-{:02}-{:02}T{:02}:{:02}:00Z", 1 + n / 1440 / 28, 1 + n / 1440 % 28, n / 60 % 24, n % 60);
            recipe.extend([("createdAt".to_owned(), at.into()), ("recipeId".to_owned(), format!("r_{n}").into())]);
            recipe.insert("creatorName".to_owned(), creator.as_str().into());
            set = set.create("catalog_recipe", recipe);
        }
        set.commit().await?;
    }
    Ok(())
}

/// Indexed recipes per second, until the subscription has read all changes, including those of its postings.
async fn indexed_per_second(nagaya: &Nagaya) -> Outcome<f64> {
    let start = Instant::now();
    catch_up(nagaya).await?;
    Ok(RECIPES as f64 / start.elapsed().as_secs_f64())
}

/// The number of postings: those of the catalog have a separate partition.
async fn count(store: &dyn Store, beginning: &str, partition: bool) -> Outcome<usize> {
    let (mut scan, mut count) = (Scan::table("MainTable"), 0);
    let attribute = if partition { "PK" } else { "SK" };
    loop {
        let page = store.scan(scan.clone()).await?;
        let begins = |value: &Value| value.as_str().is_some_and(|key| key.starts_with(beginning));
        count += page.items.iter().filter(|item| item.get(attribute).is_some_and(begins)).count();
        match page.next {
            Some(next) => scan.after = Some(next),
            None => return Ok(count),
        }
    }
}

/// A server of the system, and a client.
struct Site {
    url: String,
    token: String,
    agent: ureq::Agent,
}

impl Site {
    async fn serve(nagaya: Nagaya) -> Outcome<Self> {
        let (issuer, design) = (Arc::new(LocalIssuer::in_memory()?), design()?);
        let claims = Claims::from_design(&design);
        let grant = Grant {
            audience: NAME,
            claims: &claims,
            user: USER,
            tenant: Some(USER),
            roles: &[],
            member_of: &[],
            ttl: Duration::from_secs(3_600),
        };
        let token = issuer.issue(&grant)?;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        let verifier = Verifier::new(claims, Clock::system()).trust(&Issuer::local(&issuer), NAME).expect("one issuer");
        // All requests are of one tenant, so the rate limit is turned off.
        let mut server = Server::new(Limits { tenant_rate: 0, ..Limits::default() });
        server.mount(
            "",
            system(NAME, design, Arc::new(LocalPayments::default()), SubscriptionPlans::default()),
            nagaya,
            verifier,
        );
        tokio::spawn(server.run(listener, std::future::pending()));
        Ok(Site { url, token, agent: ureq::Agent::new_with_defaults() })
    }

    /// The milliseconds of a request, and the number of items in the response.
    fn get(&self, path: &str) -> Outcome<(f64, usize)> {
        let start = Instant::now();
        let request = self.agent.get(format!("{}{path}", self.url));
        let body =
            request.header("authorization", format!("Bearer {}", self.token)).call()?.body_mut().read_to_vec()?;
        let millis = start.elapsed().as_secs_f64() * 1e3;
        let answer: Json = serde_json::from_slice(&body)?;
        Ok((millis, answer["data"].as_array().map_or(0, Vec::len)))
    }

    /// Measures queries of every length, and the list, in turn.
    fn measure_collection(&self, place: &'static str, path: &str, seed: usize) -> Outcome<Vec<Figure>> {
        let list = format!("{path}?limit=20");
        let mut lists = Vec::new();
        let mut figures = Vec::new();
        for length in LENGTHS {
            let queries = queries(length, seed);
            let (mut times, mut found) = (Vec::new(), 0);
            for round in 0..=ROUNDS {
                for question in &queries {
                    let (millis, items) = self.get(&format!("{path}?q={question}"))?;
                    let (listed, all) = self.get(&list)?;
                    if items == 0 || all != 20 {
                        return Err(format!("{path}?q={question} gives {items} items, the list {all}").into());
                    }
                    if round > 0 {
                        times.push(millis);
                        lists.push(listed);
                        found += items;
                    }
                }
            }
            let found = found as f64 / times.len() as f64;
            eprintln!("  {place}, {length} characters are asked");
            figures.push((length, found, times));
        }
        lists.sort_by(f64::total_cmp);
        let list = (quantile(&lists, 0.5), quantile(&lists, 0.95));
        let figure = |(length, found, mut times): (usize, f64, Vec<f64>)| {
            times.sort_by(f64::total_cmp);
            Figure { place, length, found, p50: quantile(&times, 0.5), p95: quantile(&times, 0.95), list }
        };
        Ok(figures.into_iter().map(figure).collect())
    }
}

/// Parts of existing titles, as frequent as in the titles, percent-encoded.
fn queries(length: usize, seed: usize) -> Vec<String> {
    let titles = (0..).map(|n| recipes::title(seed + n * 7_919 % RECIPES));
    let parts = titles.enumerate().filter_map(|(n, title)| {
        let letters: Vec<char> = title.chars().collect();
        let last = letters.len().checked_sub(length)?;
        let from = n * 31 % (last + 1);
        Some(letters[from..from + length].iter().collect::<String>())
    });
    parts.take(QUERIES).map(|part| part.bytes().map(|byte| format!("%{byte:02X}")).collect()).collect()
}

fn quantile(sorted: &[f64], of: f64) -> f64 {
    sorted.get((sorted.len() as f64 * of) as usize).copied().unwrap_or_default()
}

struct Measured {
    load: String,
    /// Indexed recipes per second: of the book, and of the catalog.
    rates: [f64; 2],
    postings: [f64; 2],
    figures: Vec<Figure>,
}

/// The results of one query length.
struct Figure {
    place: &'static str,
    length: usize,
    /// Items of a response.
    found: f64,
    p50: f64,
    p95: f64,
    /// The same for the list of 20.
    list: (f64, f64),
}

impl Measured {
    fn page(&self) -> String {
        let [own, catalog] = self.rates;
        let [own_postings, catalog_postings] = self.postings;
        let lengths = (0..2 * RECIPES).map(|n| recipes::title(n).chars().count());
        let (short, long) = (lengths.clone().min().unwrap_or_default(), lengths.max().unwrap_or_default());
        let mut out = format!(
            "## Search\n\n\
             Written by `cargo xtask bench search --write`; do not edit.\n\n\
             Questions to `kondate` over HTTP, served by the process that asks on an embedded store on disk, with {RECIPES}\n\
             Japanese recipes in the book of one user and {RECIPES} others in the catalog: a title of {short} to {long} characters, two\n\
             tags, four to seven ingredients and a sentence or two of description each. One caller asks one question after\n\
             the other. There are {QUERIES} of each length: parts of titles, each as often as titles have it, so that what\n\
             is common is asked for most. Each is asked in {ROUNDS} rounds after one that does not count, in turn with a\n\
             list of the newest 20, which times are compared with. An answer has up to 20 recipes.\n\n\
             Indexing begins when all recipes are written and ends when the subscriber has processed all changes, its\n\
             own postings too; those of the book by a scan of all items, those of the catalog by changes.\n\n\
             | | one's own | catalog |\n|---|--:|--:|\n\
             | postings of a recipe | {own_postings:.1} | {catalog_postings:.1} |\n\
             | recipes indexed/s | {own:.0} | {catalog:.0} |\n\n\
             | where | characters | recipes in an answer | p50, ms | p95, ms | list of 20, p50 and p95, ms | p50 beside the list |\n\
             |---|--:|--:|--:|--:|--:|--:|\n",
        );
        for Figure { place, length, found, p50, p95, list: (middle, most) } in &self.figures {
            // Writing to a String does not fail.
            let _ = writeln!(
                out,
                "| {place} | {length} | {found:.1} | {p50:.2} | {p95:.2} | {middle:.2} and {most:.2} | {:.1} |",
                p50 / middle
            );
        }
        let _ = writeln!(out, "\nLoad of the machine before: {}.", self.load);
        out
    }

    fn json(&self) -> Json {
        let figure = |figure: &Figure| {
            json!({
                "place": figure.place, "characters": figure.length, "found": figure.found, "p50_ms": figure.p50,
                "p95_ms": figure.p95, "list_p50_ms": figure.list.0, "list_p95_ms": figure.list.1,
            })
        };
        json!({
            "load": self.load, "recipes_per_second": self.rates, "postings": self.postings,
            "figures": self.figures.iter().map(figure).collect::<Vec<_>>(),
        })
    }
}
