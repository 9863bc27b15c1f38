//! The names of a recording's streams.

use wakepath_event::Cpu;
use wakepath_kernel_records::Buffer;

/// The buffer in a stream's name, and the CPU, or a number for the order.
pub(crate) fn stream_of_name(name: &str) -> Option<(Buffer, u32)> {
    let cpu = |digits: &str| match digits.parse::<u16>() {
        Ok(cpu) if cpu < Cpu::LIMIT && cpu.to_string() == digits => Some(u32::from(cpu)),
        _ => None,
    };
    match name {
        "life" => Some((Buffer::Life, 0)),
        "life_late" => Some((Buffer::Life, 1)),
        _ => match name.split_once('_') {
            Some(("sched", digits)) => Some((Buffer::Sched, cpu(digits)?)),
            Some(("net", digits)) => Some((Buffer::Net, cpu(digits)?)),
            _ => None,
        },
    }
}

/// Whether a recording's stream may have this file name.
pub(crate) fn is_stream_name(name: &str) -> bool {
    stream_of_name(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_named_after_its_buffer_and_its_cpu_in_one_way() {
        assert_eq!(stream_of_name("sched_0"), Some((Buffer::Sched, 0)));
        assert_eq!(stream_of_name("net_8191"), Some((Buffer::Net, 8191)));
        assert_eq!(stream_of_name("life_late"), Some((Buffer::Life, 1)));
        for name in ["sched_8192", "sched_007", "net_+1", "sched_", "cpu_0", "metadata", ""] {
            assert!(stream_of_name(name).is_none() && !is_stream_name(name), "{name}");
        }
        assert!(is_stream_name("life") && is_stream_name("net_1"));
    }
}
