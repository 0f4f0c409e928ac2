//! Benchmarks of the informer's store; `bench/go/store` measures client-go's in the same way, and `bench/store.sh`
//! runs both.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Args;
use evenkeel_cache::{Index, Obj, ResourceInfo, ResourceVersion, Store};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::{Failure, pods, report};

const NAMESPACES: usize = 50;
const NODES: usize = 500;
/// Each figure is the median of this number.
const SLICES: usize = 5;

/// Options of the case store.
#[derive(Debug, Args)]
#[group(id = "store")]
pub(crate) struct Options {
    /// Pods in the case store.
    #[arg(long, default_value_t = 50_000)]
    objects: usize,
    /// Threads in the parallel cases.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

/// Returns the nth pod at a revision.
fn pod(info: &Arc<ResourceInfo>, number: usize, revision: usize) -> Result<Obj<Pod>, Failure> {
    let mut pod = pods::pod(number);
    pod["metadata"]["namespace"] = namespace(number % NAMESPACES).into();
    pod["metadata"]["resourceVersion"] = revision.to_string().into();
    pod["metadata"]["uid"] = format!("8c5a1a2e-0000-4000-9000-{number:012}").into();
    Ok(Obj::from_json(info, serde_json::to_vec(&pod)?)?)
}

fn namespace(number: usize) -> String {
    format!("team-{number:02}")
}

/// xorshift64*, as in the Go program.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }
}

/// Runs the work on several threads, several times, and prints the medians of wall and processor time. Processor time
/// is more meaningful on a busy machine.
fn measure(name: &str, threads: usize, operations: usize, work: impl Fn(&mut Random, usize) -> usize + Sync) {
    let (mut wall, mut cpu) = (Vec::with_capacity(SLICES), Vec::with_capacity(SLICES));
    for slice in 0..SLICES {
        let begin = Instant::now();
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (work, taken) = (&work, &taken);
                scope.spawn(move || {
                    let mut random = Random(88_172_645_463_325_252 + (thread + slice * 1000) as u64);
                    let before = processor_time();
                    assert_ne!(work(&mut random, operations), 0, "nothing was found");
                    taken.fetch_add(processor_time() - before, Ordering::Relaxed);
                });
            }
        });
        let all = (operations * threads) as f64;
        wall.push(begin.elapsed().as_nanos() as f64 / all);
        cpu.push(taken.into_inner() as f64 / all);
    }
    wall.sort_by(f64::total_cmp);
    cpu.sort_by(f64::total_cmp);
    let (wall, cpu) = (wall[SLICES / 2], cpu[SLICES / 2]);
    println!("{}", json!({"case": name, "threads": threads, "ns_per_op": wall, "cpu_ns_per_op": cpu}));
}

/// Returns the processor time of this thread, in nanoseconds.
fn processor_time() -> u64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    statistics.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

fn print(name: &str, threads: usize, unit: &str, figure: f64) {
    println!("{}", json!({"case": name, "threads": threads, unit: figure}));
}

pub(crate) fn store(options: &Options) -> Result<(), Failure> {
    let count = options.objects;
    let info = Arc::new(ResourceInfo::of::<Pod>());
    let old = (0..count).map(|number| pod(&info, number, number + 1)).collect::<Result<Vec<_>, _>>()?;
    let new = (0..count).map(|number| pod(&info, number, count + number + 1)).collect::<Result<Vec<_>, _>>()?;
    let keys: Vec<String> = old.iter().map(|pod| pod.key().to_string()).collect();
    let version = ResourceVersion::new("1");

    let before = report::resident();
    let store = Store::new([Index::namespace(), Index::by_path("node", "spec.nodeName")?]);
    store.replace(old.iter().cloned(), version.clone());
    print("memory", 1, "bytes_per_object", (report::resident() - before) as f64 / count as f64);

    for threads in if options.threads > 1 { vec![1, options.threads] } else { vec![1] } {
        measure("get", threads, 1_000_000, |random, operations| {
            (0..operations).filter(|_| store.get(&keys[random.below(count)]).is_some()).count()
        });
        measure("get_and_read", threads, 1_000_000, |random, operations| {
            let read = |pod: &Obj<Pod>| pod.resource_version().as_bytes().first().copied();
            (0..operations).filter(|_| store.get(&keys[random.below(count)]).as_ref().and_then(read).is_some()).count()
        });
        let snapshot = store.snapshot();
        measure("snapshot_get", threads, 1_000_000, |random, operations| {
            (0..operations).filter(|_| snapshot.get(&keys[random.below(count)]).is_some()).count()
        });
        drop(snapshot);
        let namespaces: Vec<String> = (0..NAMESPACES).map(namespace).collect();
        let nodes: Vec<String> = (0..NODES).map(|number| format!("node-{number:03}")).collect();
        let found = |index: &str, value: &str| store.by_index(index, value).map_or(0, |found| found.len());
        measure("by_index_1000", threads, 1_000, |random, operations| {
            (0..operations).map(|_| found("namespace", &namespaces[random.below(NAMESPACES)])).sum()
        });
        measure("by_index_100", threads, 10_000, |random, operations| {
            (0..operations).map(|_| found("node", &nodes[random.below(NODES)])).sum()
        });
        measure("by_index_visit", threads, 10_000, |random, operations| {
            let visit = |value: &str| {
                let snapshot = store.snapshot();
                snapshot.by_index("node", value).map_or(0, |found| found.map(std::hint::black_box).count())
            };
            (0..operations).map(|_| visit(&nodes[random.below(NODES)])).sum()
        });
        measure("list", threads, 50, |_, operations| (0..operations).map(|_| store.list().len()).sum());
        measure("visit_all", threads, 50, |_, operations| {
            (0..operations).map(|_| store.snapshot().iter().map(std::hint::black_box).count()).sum()
        });
        for share in [1, 10] {
            measure(&format!("mixed_{share}_percent_writes"), threads, 500_000, |random, operations| {
                let step = |number: usize, write: bool| match write {
                    true => store.put(new[number].clone()).is_some(),
                    false => store.get(&keys[number]).is_some(),
                };
                (0..operations).filter(|_| step(random.below(count), random.below(100) < share)).count()
            });
        }
    }
    let sets = [&old, &new];
    measure("put", 1, 200_000, |random, operations| {
        (0..operations).filter(|turn| store.put(sets[turn % 2][random.below(count)].clone()).is_some()).count()
    });
    store.replace(new.iter().cloned(), version.clone());
    measure("replace_all_new", 1, 4, |_, operations| {
        (0..operations).for_each(|turn| store.replace(sets[turn % 2].iter().cloned(), version.clone()));
        operations
    });
    measure("replace_all_known", 1, 4, |_, operations| {
        (0..operations).for_each(|_| store.replace(new.iter().cloned(), version.clone()));
        operations
    });
    // Indexes that are added to the full store, each under a name of its own: by a label, and by a field of the payload.
    let added = AtomicU64::new(0);
    let add = |index: &dyn Fn(&str) -> Option<Index<Pod>>| {
        let index = index(&format!("added-{}", added.fetch_add(1, Ordering::Relaxed)));
        usize::from(index.is_some_and(|index| store.add_indexes([index]).is_ok()))
    };
    measure("add_index_label", 1, 2, |_, operations| {
        let label = |pod: &Obj<Pod>| pod.label("app").map(str::to_owned);
        (0..operations).map(|_| add(&|name| Some(Index::by_object(name, label)))).sum()
    });
    measure("add_index_field", 1, 2, |_, operations| {
        (0..operations).map(|_| add(&|name| Index::by_path(name, "spec.nodeName").ok())).sum()
    });
    Ok(())
}
