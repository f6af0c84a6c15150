//! Texts by the name of a field: people get names, files get paths, tasks get titles.

use nagaya_design::{DefaultValue, Design, Field};
use nagaya_seed::{DAY_MILLIS, EXAMPLE_DOMAINS, Person, Rng};
use serde_json::Value as Json;

use super::{item::ItemBuilder, links::words, value::fits, words::WORDS};

/// A text that fits a field, by the words of its name; `None` if none is found.
pub(super) fn text(builder: &mut ItemBuilder<'_>, field: &Field, words: &[String]) -> Option<String> {
    // A default is mostly kept.
    if let Some(DefaultValue::Constant(Json::String(usual))) = &field.default
        && !usual.is_empty()
        && !words.ends_with(&["type".to_owned()])
    {
        return Some(usual.clone());
    }
    let mut tries = builder.tries(field, words);
    // A number makes it unique where chance did not.
    if builder.attempt > 5 && builder.is_identifying(field) {
        let again = builder.n + builder.attempt * 1_000;
        tries = tries.iter().map(|text| numbered(text, again)).collect();
    }
    let takes = |text: &String| fits(field, &text.as_str().into());
    let short = |text: &String| text.chars().take(field.max_size).collect::<String>();
    let slugged = |text: &String| format!("{}{}", field.prefix(), slug(text));
    tries
        .iter()
        .map(short)
        .find(takes)
        .or_else(|| tries.iter().map(slugged).find(takes))
        // No word fits: build a text from the pattern.
        .or_else(|| field.matching_text(&mut |count| builder.rng.below(count)).filter(takes))
        .or_else(|| field.example().as_str().map(str::to_owned).filter(takes))
}

/// A sentence.
pub(super) fn sentence(rng: &mut Rng) -> String {
    rng.pick_word(&WORDS.sentences_en).to_owned()
}

/// A task.
fn chore(rng: &mut Rng) -> String {
    format!("{} {}", rng.pick_word(&WORDS.verbs), rng.pick_word(&WORDS.objects))
}

/// Some sentences, in one language.
fn sentences(rng: &mut Rng, most: i64) -> String {
    let (of, between): (&[&str], _) =
        if rng.chance(60) { (&WORDS.sentences_en, " ") } else { (&WORDS.sentences_ja, "") };
    (0..rng.between(1, most)).map(|_| rng.pick_word(of)).collect::<Vec<_>>().join(between)
}

/// A page with a title, a list and some text.
fn markdown(rng: &mut Rng) -> String {
    let title = chore(rng);
    let list: String = (0..rng.between(2, 4)).map(|_| format!("- {}\n", chore(rng))).collect();
    format!("# {title}\n\n{}\n\n{list}\n{}\n", sentences(rng, 3), sentences(rng, 2))
}

/// An IP address that is reserved for examples.
fn address(rng: &mut Rng) -> String {
    format!("{}.{}", rng.pick_word(&["192.0.2", "198.51.100", "203.0.113"]), rng.between(1, 254))
}

fn host(rng: &mut Rng, n: usize) -> String {
    format!("{}.{}", slug(&nth(&WORDS.companies, n)), rng.pick_word(&EXAMPLE_DOMAINS))
}

/// Lower-case words with hyphens between them.
fn slug(text: &str) -> String {
    let plain = |each: char| if each.is_ascii_alphanumeric() { each.to_ascii_lowercase() } else { ' ' };
    text.chars().map(plain).collect::<String>().split_whitespace().collect::<Vec<_>>().join("-")
}

/// A text with a number appended.
fn numbered(text: &str, number: usize) -> String {
    match text.split_once('@') {
        Some((local, host)) => format!("{local}{number}@{host}"),
        None if text.contains(' ') => format!("{text} {number}"),
        None => format!("{text}-{number}"),
    }
}

/// The n-th of some words, with a number once all have been used.
fn nth(of: &[&str], n: usize) -> String {
    let word = of.get(n % of.len().max(1)).copied().unwrap_or_default();
    match n / of.len().max(1) {
        0 => word.to_owned(),
        again => format!("{word} {}", again + 1),
    }
}

/// The subject of a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Theme {
    Office,
    Home,
    Kitchen,
}

fn theme(design: &Design) -> Theme {
    let about = |wanted: &[&str], name: &str| words(name).iter().any(|word| wanted.contains(&word.as_str()));
    if design.entities.iter().any(|entity| about(&["recipe", "dish", "menu", "fridge"], &entity.name)) {
        return Theme::Kitchen;
    }
    if about(&["family", "household", "home"], &design.tenant.field) { Theme::Home } else { Theme::Office }
}

impl ItemBuilder<'_> {
    /// Whether a field is part of the key or of a unique constraint.
    pub(super) fn is_identifying(&self, field: &Field) -> bool {
        let entity = self.task.entity;
        let unique = || entity.unique.iter().flat_map(|unique| &unique.fields);
        entity.is_key_field(&field.name) || unique().any(|name| *name == field.name)
    }

    /// Whether a field holds the name of a tenant.
    pub(super) fn names_tenant(&self, of: &[String]) -> bool {
        let design = self.state.design;
        let own = words(&design.tenant.field);
        let mut fields = design.entities.iter().filter_map(|entity| entity.tenant.as_deref());
        // One word such as `id` would match many names.
        own.len() > 1 && of.ends_with(&own) || own == of || fields.any(|field| words(field) == of)
    }

    /// Texts for a field, the best first; not all of them fit.
    fn tries(&mut self, field: &Field, words: &[String]) -> Vec<String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut tries: Vec<String> = self.by_name(field, &words).into_iter().collect();
        // A descriptive id, from the service and the name of a role.
        if words == ["id"] {
            let links = self.task.links.keys().map(String::as_str).filter(|_| !field.prefix().is_empty());
            let parts = links.chain(["roleName", "name", "title"]);
            let parts: Vec<String> = parts.filter_map(|name| Some(slug(self.fields.get(name)?.as_str()?))).collect();
            tries.insert(0, format!("{}{}", field.prefix(), parts.join("_")));
        }
        if tries.is_empty() {
            let chance = if field.max_size > 200 { sentences(&mut self.rng, 2) } else { chore(&mut self.rng) };
            tries.push(chance);
        }
        // A field of any name may accept only some kind of address.
        let rng = &mut self.rng;
        tries.push(self.person.email.clone());
        tries.push(format!("https://example.com/{}/{}", words.first().unwrap_or(&"item"), rng.hex(10)));
        tries.push(address(rng));
        tries.push(host(rng, self.n));
        tries
    }

    /// The text of a field with this name.
    fn by_name(&mut self, field: &Field, words: &[&str]) -> Option<String> {
        let entity = self.task.entity;
        let theme = theme(self.state.design);
        let kitchen = theme == Theme::Kitchen;
        let last = *words.last()?;
        let first = *words.first()?;
        let personal = field.personal || entity.is_personal(&field.name);
        if self.names_tenant(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>()) {
            return self.some_tenant();
        }
        let n = self.n;
        let moment = self.moment;
        let rng = &mut self.rng;
        Some(match last {
            "id" => format!("{}{}", field.prefix(), rng.hex(20)),
            "by" | "username" | "handle" | "login" => self.person.handle().to_owned(),
            "name" if words.contains(&"role") => rng.pick_word(&WORDS.roles).to_owned(),
            "name" if first == "tenant" || first == "company" => nth(&WORDS.companies, n),
            "name" if first == "device" => rng.pick_word(&WORDS.devices).to_owned(),
            "name" if personal || matches!(first, "sender" | "author" | "applicant" | "creator" | "full") => {
                self.person.name.clone()
            }
            "name" => self.name(kitchen),
            "author" | "sender" | "owner" | "assignee" | "reporter" | "person" => self.person.name.clone(),
            "from" => format!("{} <{}>", self.person.name, self.person.email),
            "to" | "cc" | "recipients" => Person::numbered(rng.below(1_000)).email,
            "title" if kitchen && entity.name == "set" => nth(&WORDS.meals, n),
            "title" | "subject" | "headline" if kitchen => rng.pick_word(&WORDS.dishes).to_owned(),
            "title" | "subject" if theme == Theme::Home => rng.pick_word(&WORDS.at_home).to_owned(),
            "title" | "subject" | "headline" | "summary" | "task" => chore(rng),
            "markdown" => markdown(rng),
            "instructions" => (0..3).map(|_| rng.pick_word(&WORDS.instructions)).collect::<Vec<_>>().join("\n"),
            "body" if field.max_size >= 5_000 => markdown(rng),
            "error" => rng.pick_word(&WORDS.errors).to_owned(),
            "message" if first == "error" => rng.pick_word(&WORDS.errors).to_owned(),
            "message" if words.len() == 1 && entity.field("level").is_some() => {
                let quiet = matches!(self.fields.get("level").and_then(Json::as_str), Some("debug" | "info"));
                rng.pick_word(if quiet { &WORDS.log_lines[..] } else { &WORDS.errors[..] }).to_owned()
            }
            "description" | "memo" | "note" | "notes" | "comment" if kitchen => {
                rng.pick_word(&WORDS.at_table).to_owned()
            }
            "description" | "body" | "text" | "content" | "message" | "snippet" | "comment" | "memo" | "note"
            | "notes" | "reason" | "bio" => sentences(rng, 3),
            "email" | "mail" => self.person.email.clone(),
            "url" if matches!(first, "image" | "avatar" | "photo") => {
                format!("https://images.example.com/{}.jpg", rng.hex(12))
            }
            "domain" | "hostname" | "host" => host(rng, n),
            "url" | "uri" | "link" | "href" => format!("https://example.com/{first}/{}", rng.hex(8)),
            "agent" if first == "user" => rng.pick_word(&WORDS.user_agents).to_owned(),
            "ip" | "address" if first == "ip" || first == "client" => address(rng),
            "address" | "city" => rng.pick_word(&WORDS.cities).to_owned(),
            "country" => rng.pick_word(&["JP", "GB", "DE", "US"]).to_owned(),
            "phone" => format!("+81 3 5555 {:04}", rng.between(0, 9_999)),
            "language" | "locale" | "lang" => rng.pick_word(&["ja", "en"]).to_owned(),
            "timezone" => "Asia/Tokyo".to_owned(),
            "currency" => "JPY".to_owned(),
            "colour" | "color" => format!("#{}", rng.hex(6)),
            "checksum" | "hash" => format!("sha256:{}", rng.hex(64)),
            "token" | "secret" | "key" | "auth" | "cursor" | "p256dh" => rng.hex(40),
            "model" => rng.pick_word(&WORDS.models).to_owned(),
            "unit" => WORDS.foods[n % WORDS.foods.len()].1.to_owned(),
            "category" if kitchen => WORDS.foods[n % WORDS.foods.len()].2.to_owned(),
            "category" => rng.pick_word(&WORDS.categories).to_owned(),
            "steps" => rng.pick_word(&WORDS.steps).to_owned(),
            "tags" | "tag" if kitchen => rng.pick_word(&WORDS.food_tags).to_owned(),
            "tags" | "tag" | "labels" | "label" => rng.pick_word(&WORDS.tags).to_owned(),
            "allergies" => rng.pick_word(&WORDS.allergens).to_owned(),
            "scopes" | "scope" => rng.pick_word(&WORDS.scopes).to_owned(),
            "permissions" => format!("{}.{}", rng.pick_word(&WORDS.categories), rng.pick_word(&["read", "write"])),
            "role" | "roles" => rng.pick_word(&WORDS.roles).to_owned(),
            "provider" => rng.pick_word(&["example-pay", "example-mail"]).to_owned(),
            "brand" => rng.pick_word(&WORDS.brands).to_owned(),
            "plan" => rng.pick_word(&["free", "standard", "premium"]).to_owned(),
            "kind" => rng.pick_word(&WORDS.kinds).to_owned(),
            "source" => rng.pick_word(&WORDS.sources).to_owned(),
            "action" => rng.pick_word(&WORDS.actions).to_owned(),
            "resource" => format!("task/{}", rng.hex(8)),
            "endpoint" => rng.pick_word(&WORDS.endpoints).to_owned(),
            "schedule" => rng.pick_word(&WORDS.schedules).to_owned(),
            "version" => format!("{}.{}.{}", rng.between(0, 3), rng.between(0, 9), rng.between(0, 20)),
            "period" | "month" => month(moment),
            "path" => format!("/{}", slug(&nth(&WORDS.folders, n))),
            "type" if first == "content" => WORDS.files[n % WORDS.files.len()].1.to_owned(),
            "last4" => format!("{:04}", rng.between(0, 9_999)),
            _ => return None,
        })
    }

    /// The name of something that is not a person.
    fn name(&mut self, kitchen: bool) -> String {
        let n = self.n;
        let entity = words(&self.task.entity.name);
        match entity.last().map_or("", String::as_str) {
            "item" | "ingredient" | "food" if kitchen => WORDS.foods[n % WORDS.foods.len()].0.to_owned(),
            "category" => nth(&WORDS.meals, n),
            "tenant" | "company" | "organisation" | "organization" | "team" | "shop" | "customer" | "account" => {
                nth(&WORDS.companies, self.tenant.unwrap_or(0) * 7 + n)
            }
            "agent" | "bot" => nth(&WORDS.agents, n),
            "folder" | "directory" => nth(&WORDS.folders, n),
            "file" | "document" | "attachment" => WORDS.files[n % WORDS.files.len()].0.to_owned(),
            "channel" | "room" => nth(&WORDS.channels, n),
            "service" => nth(&WORDS.services, n),
            "job" => nth(&WORDS.jobs, n),
            "key" => nth(&WORDS.keys, n),
            "role" | "group" => nth(&WORDS.roles, n),
            "dish" | "recipe" | "meal" => self.rng.pick_word(&WORDS.dishes).to_owned(),
            _ => chore(&mut self.rng),
        }
    }

    fn some_tenant(&mut self) -> Option<String> {
        let tenants = &self.state.tenants;
        let at = self.tenant.unwrap_or_else(|| self.rng.below(tenants.len()));
        tenants.get(at).cloned()
    }
}

/// The month of a moment, `2026-02`.
fn month(millis: i64) -> String {
    let day = jiff::Timestamp::from_millisecond(millis - millis.rem_euclid(DAY_MILLIS));
    day.map_or_else(|_| "2026-01".to_owned(), |day| day.to_string().chars().take(7).collect())
}
