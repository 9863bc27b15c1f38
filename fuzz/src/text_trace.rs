//! Text by ftrace, `trace-cmd report` or `perf script`, from its first line to its events' graph.

use std::path::Path;

use wakepath_import::TextTrace;

use crate::traced;

/// Puts bytes through the reader of traces as text.
///
/// # Panics
/// When a law is broken.
pub fn check(input: &[u8]) {
    // A line is longer than its events: a switch, names, a thread.
    let name = "trace.txt";
    traced::check(TextTrace::from_source(input, Path::new(name)), name, input.len(), 1);
}

/// The first inputs: each program's forms, notes and losses, lines that go back, and each tracepoint's text.
pub fn seeds() -> Vec<Vec<u8>> {
    const FTRACE: &str = "# tracer: nop\n          <idle>-0       [000] d..2.     1.000100: sched_switch: prev_comm=swapper/0 \
        prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=here next_pid=7 next_prio=120\n";
    const TRACE_CMD: &str = "cpus=2\n   <idle>-0     [000]     1.000100: sched_switch:         swapper/0:0 [120] R ==> here:7 [120]\n";
    const PERF: &str = "swapper     0 [000]     1.000100:       sched:sched_switch: prev_comm=swapper/0 prev_pid=0 \
        prev_prio=120 prev_state=R ==> next_comm=here next_pid=7 next_prio=120\n\tffffffff82200809 schedule+0x8 (x)\n\n";
    let here = |text: &str| format!("            here-7     (    7) [000] d.h3.     1.000105123: {text}\n");
    let line = |text: &str| format!("{FTRACE}{}", here(text));
    let mut seeds = vec![
        FTRACE.to_owned(),
        TRACE_CMD.to_owned(),
        PERF.to_owned(),
        format!(
            "{TRACE_CMD}   here-7     [000]     1.000110: sched_waking:  there:8 [120] success=1 CPU:001\n"
        ),
        format!(
            "{TRACE_CMD}CPU:1 [7 EVENTS DROPPED]\n    here-7  0d..2.  1.000111: sched_switch: here:7 [120] x ==> a:1 [0] S ==> b:9 [120]\n"
        ),
        format!(
            "{PERF}here     7/8 [001]     1.000100: PERF_RECORD_LOST lost 9\nhere  -1 [000] 1.000200: 1 sched:sched_wakeup: comm=a pid=9 prio=120 target_cpu=000\n"
        ),
        format!("# hostname : web3\n# os release : 6.1.0\n{PERF}"),
        format!("{FTRACE}##### CPU 1 buffer started ####\nCPU:0 [LOST 7 EVENTS]\n{FTRACE}"),
        format!("{}{FTRACE}", here("sched_waking: comm=there pid=8 prio=120 target_cpu=001")),
    ];
    seeds.extend(
        [
            "sched_waking: comm=there pid=8 prio=120 success=1 target_cpu=001",
            "sched_wakeup_new: comm=there pid=8 prio=120 target_cpu=000",
            "task_newtask: pid=20 comm=here clone_flags=3d0f00 oom_score_adj=0",
            "sched_process_fork: comm=here pid=7 child_comm=here child_pid=20",
            "sched_process_exec: filename=/bin/ls pid=7 old_pid=7",
            "sched_process_exit: comm=here pid=7 prio=120 group_dead=true",
            "task_rename: pid=7 oldcomm=here newcomm=a newcomm=b oom_score_adj=0",
            "irq_handler_entry: irq=36 name=virtio1-req.0",
            "softirq_entry: vec=1 [action=TIMER]",
            "hrtimer_expire_entry: hrtimer=00000000f1f2 function=hrtimer_wakeup now=1",
            "local_timer_entry: vector=236",
            "block_rq_issue: 8,16 WS 4096 () 2157368 + 8 [bash]",
            "block_rq_complete: 8,16 R () 2157368 + 8 [0]",
            "sys_enter: NR 202 (7f48f3aea0a8, 189, 2, 0, 0, 0)",
            "sys_futex(uaddr: 0x7f48f3aea0a8, op: 0x89, val: 2)",
            "sys_futex -> 0x0",
        ]
        .map(line),
    );
    seeds.into_iter().map(String::into_bytes).collect()
}
