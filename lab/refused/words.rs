// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls many functions of Rust's library and its own, each some thousand times, the same number in each run.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, RwLock, mpsc};

#[derive(Debug, Clone, PartialEq, PartialOrd)]
enum Word {
    Name(String),
    Number(f64),
    List(Vec<Word>),
}

trait Weigh {
    fn weigh(&self) -> usize;
}

impl Weigh for Word {
    #[inline(never)]
    fn weigh(&self) -> usize {
        match self {
            Self::Name(name) => name.len(),
            Self::Number(number) => *number as usize,
            Self::List(words) => words.iter().map(Weigh::weigh).sum(),
        }
    }
}

#[inline(never)]
fn read(text: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    for word in text.split_whitespace() {
        words.push(match word.parse::<f64>() {
            Ok(number) => Word::Number(number),
            Err(_) if word.starts_with('(') => Word::List(read(word.trim_matches(['(', ')']))?),
            Err(_) if word.contains('!') => return Err(format!("no word: {word:?}")),
            Err(_) => Word::Name(word.to_uppercase()),
        });
    }
    Ok(words)
}

#[inline(never)]
fn shown(words: &[Word]) -> String {
    let mut text = String::new();
    for word in words {
        let _ = write!(text, "{word:?} {:>8} ", word.weigh());
    }
    text.replace("Name", "N")
}

#[inline(never)]
fn counted(words: &[Word], by: &mut HashMap<String, usize>, sorted: &mut BTreeMap<String, Vec<Word>>) {
    for word in words {
        let key = format!("{word:?}");
        *by.entry(key.clone()).or_default() += 1;
        sorted.entry(key).or_default().push(word.clone());
        if sorted.len() > 60 {
            sorted.pop_first();
        }
    }
}

#[inline(never)]
fn boxed(n: usize) -> Box<dyn Weigh> {
    if n % 2 == 0 { Box::new(Word::Number(n as f64)) } else { Box::new(Word::Name(n.to_string())) }
}

fn main() {
    let (mut by, mut sorted, mut queue) = (HashMap::new(), BTreeMap::new(), VecDeque::new());
    let (total, last) = (Arc::new(Mutex::new(0)), RwLock::new(String::new()));
    let (send, receive) = mpsc::channel();
    for n in 0..3000_usize {
        let text = format!("word{} {} (inner) other {}", n % 100, n * 3, if n % 50 == 0 { "bad!" } else { "good" });
        let words = read(&text).unwrap_or_default();
        counted(&words, &mut by, &mut sorted);
        queue.push_back(shown(&words));
        if queue.len() > 10 {
            let line = queue.pop_front().unwrap_or_default();
            let mut letters: Vec<char> = line.chars().rev().collect();
            letters.sort_unstable();
            letters.dedup();
            *last.write().unwrap() = letters.into_iter().collect();
        }
        *total.lock().unwrap() += boxed(n).weigh() + last.read().unwrap().len();
        let _ = send.send(words);
        let _ = receive.try_recv();
    }
    println!("{} {} {}", by.len(), sorted.len(), total.lock().unwrap());
}
