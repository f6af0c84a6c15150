//! The hot paths of a design: rendering a key, and routing a key to its entity.
//!
//! Each is compared with hand-written code for that key.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use nagaya_design::{Design, KeyRouter, check};

const AIAGENT: &str = include_str!("../../../systems/aiagent/design/single.toml");
const KONDATE: &str = include_str!("../../../systems/kondate/design/kondate.toml");
const MANAGEMENT: &str = include_str!("../../../systems/management/design/management.toml");
const ALL: [&str; 5] = [
    AIAGENT,
    include_str!("../../../systems/aiagent/design/multi.toml"),
    include_str!("../../../systems/todo/design/todo.toml"),
    KONDATE,
    MANAGEMENT,
];

fn design(source: &str) -> Design {
    check(source, &[]).design.expect("the design has no errors")
}

fn render(c: &mut Criterion) {
    let design = design(AIAGENT);
    let audit = design.entity("audit").expect("declared");
    let fields =
        [("tenantId", "t1"), ("timestamp", "2026-01-31T09:30:00Z"), ("uuid", "550e8400-e29b-41d4-a716-446655440000")];
    let mut group = c.benchmark_group("render");
    group.bench_function("by hand with format!", |b| {
        b.iter(|| {
            let [(_, tenant), (_, timestamp), (_, uuid)] = black_box(&fields);
            (format!("TENANT#{tenant}"), format!("AUDIT#{timestamp}#{uuid}"))
        });
    });
    group.bench_function("AUDIT#{timestamp}#{uuid}", |b| b.iter(|| audit.key.render(black_box(&fields))));
    let mut partition = String::new();
    let mut sort = String::new();
    group.bench_function("into a buffer, no allocation", |b| {
        b.iter(|| {
            partition.clear();
            sort.clear();
            audit.key.partition.render_into(black_box(&fields), &mut partition)?;
            audit.key.sort.render_into(black_box(&fields), &mut sort)
        });
    });
    group.finish();
}

fn route(c: &mut Criterion) {
    let mut group = c.benchmark_group("route");
    let aiagent = design(AIAGENT);
    let router = KeyRouter::new(&aiagent);
    group.bench_function("by hand with strip_prefix", |b| {
        b.iter(|| {
            let (partition, sort) = black_box(("TENANT#t1", "USER#u1"));
            let tenant = partition.strip_prefix("TENANT#")?;
            let user = sort.strip_prefix("USER#")?;
            Some(("user", vec![("tenantId", tenant), ("userId", user)]))
        });
    });
    group.bench_function("a user among 17 entities", |b| {
        b.iter(|| router.route("app", black_box("TENANT#t1"), black_box("USER#u1")));
    });
    let kondate = design(KONDATE);
    let router = KeyRouter::new(&kondate);
    group.bench_function("a cook log among 22 entities", |b| {
        b.iter(|| {
            let sort = black_box("COOKLOG#2026-02-09#01KG9S5Q60T4N2Y8ZC3M7VXR1E");
            router.route("main", black_box("USER#u1"), sort)
        });
    });
    let management = design(MANAGEMENT);
    let router = KeyRouter::new(&management);
    group.bench_function("a deterministic id", |b| {
        b.iter(|| {
            let id = black_box("ra_user_550e8400-e29b-41d4-a716-446655440000_tenant-management_管理者");
            router.route("auth", black_box("tenant_123"), id)
        });
    });
    group.finish();
}

fn check_all(c: &mut Criterion) {
    c.bench_function("check all five designs", |b| {
        b.iter(|| ALL.iter().map(|source| check(source, &[]).diagnostics.len()).sum::<usize>());
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30);
    targets = render, route, check_all
}
criterion_main!(benches);
