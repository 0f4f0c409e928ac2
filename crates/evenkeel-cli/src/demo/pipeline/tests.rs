use super::*;

fn numbers() -> Numbers {
    let watching = |objects| Informer { doing: Activity::Watching, objects, version: "17".into(), relists: 1 };
    let mut numbers = Numbers {
        revision: 18,
        watchers: 4,
        requests: [1, 2, 3],
        foos: watching(20),
        deployments: watching(5000),
        ..Numbers::default()
    };
    (numbers.queue.adds, numbers.queue.depth, numbers.queue.in_flight) = (10, 3, 2);
    numbers
}

fn rendered(lines: &[Line]) -> Vec<String> {
    lines.iter().map(|line| line.render(false, usize::MAX)).collect()
}

#[test]
fn a_wide_terminal_shows_the_stages_side_by_side() {
    let lines = rendered(&lines(&numbers(), 7, 80));
    assert_eq!(
        lines,
        [
            "API server ──► reflectors ─────────► stores ────────► queue ────► workers",
            "revision 18    Foos watching         Foos 20          ready 0     busy 2 of 4  ",
            "requests 6     Deployments watching  Deployments 5000 waiting 0   7 per s      ",
            "watches 4      breaks 0              at 17            failing 0   done 5       ",
            "               relists 2             at 17            retries 0   events 0     ",
        ]
    );
    assert!(lines.iter().all(|line| line.chars().count() <= 79));
}

#[test]
fn a_narrow_terminal_shows_the_stages_one_below_the_other() {
    let lines = rendered(&lines(&numbers(), 7, 79));
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[1], "reflectors Foos watching  Deployments watching  breaks 0  relists 2  ");
}

#[test]
fn a_rate_is_that_of_the_last_second() {
    let mut rate = Rate::default();
    assert_eq!(rate.per_second(), 0);
    rate.count(Duration::ZERO, 0);
    assert_eq!(rate.per_second(), 0);
    for tenth in 1..=30 {
        rate.count(Duration::from_millis(tenth * 100), tenth * 5);
    }
    assert_eq!(rate.per_second(), 50);
    assert!(rate.counts.len() <= 12);
    for tenth in 31..=41 {
        rate.count(Duration::from_millis(tenth * 100), 150);
    }
    assert_eq!(rate.per_second(), 0);
}
