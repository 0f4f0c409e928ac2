use super::*;

#[test]
fn rpl_1_a_seed_and_the_tape_of_its_run_give_the_same_choices() {
    let ask = |decisions: &mut Decisions| -> Vec<u32> {
        (0..50).map(|step| decisions.uniform(if step % 3 == 0 { Stream::Task } else { Stream::Latency }, 5)).collect()
    };
    let mut drawn = Decisions::new(ChoiceSource::Seed(7));
    let choices = ask(&mut drawn);
    assert!(choices.iter().any(|choice| *choice > 0));
    let text = drawn.taken().to_string();
    let mut replayed = Decisions::new(ChoiceSource::Tape(text.parse().unwrap()));
    assert_eq!(ask(&mut replayed), choices);
    assert_eq!(replayed.taken(), drawn.taken());
}

#[test]
fn sim_4_a_choice_more_in_one_stream_changes_no_other() {
    let mut plain = Decisions::new(ChoiceSource::Seed(3));
    let mut more = Decisions::new(ChoiceSource::Seed(3));
    more.uniform(Stream::Fault, 100);
    for _ in 0..20 {
        assert_eq!(plain.uniform(Stream::Task, 100), more.uniform(Stream::Task, 100));
    }
}

#[test]
fn what_a_tape_does_not_name_is_plain_and_choices_stay_below_their_bound() {
    let mut decisions = Decisions::new(ChoiceSource::Tape("f1=9".parse().unwrap()));
    assert_eq!([0, 1, 2].map(|_| decisions.uniform(Stream::Fault, 4)), [0, 3, 0]);
    assert_eq!(decisions.taken().to_string(), "f1=3");
    assert_eq!(Tape::default().to_string().parse::<Tape>().unwrap(), Tape::default());
}

#[test]
fn rare_choices_are_rare() {
    let mut decisions = Decisions::new(ChoiceSource::Seed(1));
    let drawn: Vec<u32> = (0..100_000).map(|_| decisions.rarely(Stream::Fault, 3, 20_000)).collect();
    let hits = drawn.iter().filter(|choice| **choice > 0).count();
    assert!((1_700..2_300).contains(&hits), "{hits} of 100,000 with a probability of 2 %");
    assert!(drawn.contains(&1) && drawn.contains(&2));
}

#[test]
fn a_text_that_is_no_tape_is_refused() {
    assert!("x1=2".parse::<Tape>().unwrap_err().to_string().starts_with("\"x1=2\" is not part of a tape"));
    assert!("f=2".parse::<Tape>().is_err());
}
