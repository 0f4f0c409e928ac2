use std::io::{Read, Write};

use crate::remote::copy::bridge::{self, Part};

#[test]
fn a_writer_waits_for_the_reader() {
    const SENT: usize = 4 << 20;
    let (mut writer, mut parts) = bridge::writer();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            writer.write_all(&vec![7; SENT]).unwrap();
            writer.finish().unwrap();
        });
        let mut received = 0;
        while let Some(part) = parts.blocking_recv() {
            assert!(parts.len() <= 8, "{} chunks wait", parts.len());
            if let Part::Data(data) = part {
                assert!(data.len() <= 32 * 1024);
                received += data.len();
            }
        }
        assert_eq!(received, SENT);
    });
}

#[test]
fn a_reader_ends_only_at_the_end() {
    let (sender, mut reader) = bridge::reader();
    sender.try_send(Part::Data("ab".into())).unwrap();
    sender.try_send(Part::End).unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "ab");

    let (sender, mut reader) = bridge::reader();
    sender.try_send(Part::Data("ab".into())).unwrap();
    drop(sender);
    assert!(reader.read_to_string(&mut text).is_err());
}

#[test]
fn an_aborted_writer_sends_nothing() {
    let (mut writer, mut parts) = bridge::writer();
    writer.write_all(b"data").unwrap();
    writer.abort();
    assert!(writer.finish().is_err());
    assert_eq!(parts.blocking_recv(), None);
}
