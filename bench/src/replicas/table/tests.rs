use super::super::model::tests::runs;
use super::*;

#[test]
fn shs_008_figures_are_in_proportion_to_one_replica() {
    let runs = runs();
    let counts = [1, 2, 4];
    let rows = rows(&runs.iter().collect::<Vec<_>>(), &counts);
    let table = markdown(&rows, &counts);
    let line = |start: &str| {
        let line =
            table.lines().find(|line| line.starts_with(&format!("| {start} "))).unwrap_or_else(|| panic!("no {start}"));
        line.split('|').skip(2).map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(line("filtered: steady memory of a replica, to one replica's"), ["1.00", "0.69", "0.54"]);
    assert_eq!(line("filtered: sync, bytes sent, to one replica's"), ["1.00", "1.00", "1.00"]);
    assert_eq!(line("not filtered: sync, bytes sent, to one replica's"), ["1.00", "2.00", "4.00"]);
    assert_eq!(line("CPU per object dropped, µs"), ["–", "4.00", "4.00"]);
    assert_eq!(line("CPU per update dropped, µs"), ["–", "6.00", "6.00"]);
}

#[test]
fn the_report_reads_the_values_of_all_rounds() {
    let runs = runs();
    let counts = [1, 2, 4];
    let rows = rows(&runs.iter().collect::<Vec<_>>(), &counts);
    let table = json(&rows, &counts, "pods", 1);
    assert_eq!((&table["rounds"], &table["alone"]), (&json!(1), &json!(true)));
    let last = table["rows"].as_array().unwrap().last().unwrap();
    assert_eq!(last["title"], "CPU per update dropped, µs");
    let values = last["values"].as_object().unwrap();
    assert_eq!(values.keys().collect::<Vec<_>>(), ["2 replicas", "4 replicas"], "one replica drops nothing");
}
