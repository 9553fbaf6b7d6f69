package cluster

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// endsWithParent makes the kernel kill the process when the test ends, in whatever way.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// ticks is how many clock ticks of /proc/<pid>/stat a second has, for all of Linux' architectures that Go supports.
const ticks = 100

// Busy is the processor time that a process has taken (proc_pid_stat(5): utime and stime).
func Busy(pid int) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // without text, the process has ended
	fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / ticks
}
