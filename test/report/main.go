// Report runs a command that runs go test -json, once or several times, and shows how the tests go: a line for each package as it ends, what failed
// tests say, and a closing line. It exits with the status of the command. make test and .ci/run use it:
//
//	go run ./test/report -of 38 -- go test -json ./...
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// quiet is after how long without a line another line says that the command still runs, for those who watch.
const quiet = 20 * time.Second

func main() {
	of := flag.Int("of", 0, "how many packages with tests there are; 0: unknown")
	verbose := flag.Bool("verbose", false, "also show what the tests of the top say, as they say it")
	tally := flag.String("tally", "", "append go test's line of each package, and the sums, to this file; nobody watches then")
	leftOut := flag.String("left-out", "", "what this run leaves out, for the end")
	flag.Parse()
	r := &run{out: os.Stdout, of: *of, verbose: *verbose, leftOut: *leftOut, watched: *tally == "", began: time.Now()}
	status, err := r.command(flag.Args())
	if err == nil && *tally != "" {
		err = r.addTo(*tally)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(2)
	}
	os.Exit(status)
}

// command runs a command to its end, and returns its status: 1 if it ended well although a test failed, or none ran.
func (r *run) command(args []string) (int, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	said, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for all := bufio.NewReader(said); ; {
			line, err := all.ReadString('\n')
			if line != "" {
				lines <- line
			}
			if err != nil {
				if err != io.EOF {
					fmt.Fprintln(os.Stderr, "report:", err)
				}
				return
			}
		}
	}()
	r.read(lines)
	failed := cmd.Wait()
	r.close(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())
	if status := cmd.ProcessState.ExitCode(); failed != nil {
		return max(1, status), nil
	}
	if r.failed > 0 || len(r.packages) == 0 {
		return 1, nil
	}
	return 0, nil
}
