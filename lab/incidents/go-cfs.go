// cause: a Go program's cgroup may use half a CPU; its four goroutines would use two
// size: $long s
// ask: record -- $0
// who: shopgo
// says: CPU limit
// json: contributors kind=throttled
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

func throttled(folder string) float64 {
	stat, _ := os.ReadFile(folder + "/cpu.stat")
	words := strings.Fields(string(stat))
	for i, word := range words {
		if unit := map[string]float64{"throttled_time": 1e9, "throttled_usec": 1e6}[word]; unit != 0 {
			time, _ := strconv.ParseFloat(words[i+1], 64)
			return time / unit
		}
	}
	return 0
}

func main() {
	runtime.GOMAXPROCS(2)
	folder, file, limit := "/sys/fs/cgroup/cpu/shopgo", "/cpu.cfs_quota_us", "50000"
	if _, err := os.Stat("/sys/fs/cgroup/cpu/cpu.shares"); err != nil {
		folder, file, limit = "/sys/fs/cgroup/shopgo", "/cpu.max", "50000 100000"
	}
	os.Remove(folder) // an earlier run's, with its limit
	os.MkdirAll(folder, 0755)
	remove := exec.Command("sh", "-c", "sleep 20; rmdir "+folder)
	remove.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	remove.Start()
	if os.Getenv("TWIN") == "" {
		os.WriteFile(folder+file, []byte(limit), 0)
	}
	os.WriteFile(folder+"/cgroup.procs", []byte("0"), 0)
	var all sync.WaitGroup
	for range 4 {
		all.Add(1)
		go func() {
			sum := uint64(0)
			for i := range uint64(400_000_000) {
				sum = sum*31 + i
			}
			if sum == 0 {
				fmt.Println()
			}
			all.Done()
		}()
	}
	all.Wait()
	// Both CPUs' queues of the cgroup are held back at once: half of their sum.
	long := throttled(folder) / 2
	planted, _ := os.OpenFile(os.Getenv("PLANTED"), os.O_APPEND|os.O_WRONLY, 0)
	fmt.Fprintf(planted, "long %f\ntwin %f\n", long, long)
}
