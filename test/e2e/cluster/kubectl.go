package cluster

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Kubectl runs kubectl as an administrator and returns its output; its error contains what kubectl wrote to stderr.
func (c *Cluster) Kubectl(args ...string) (string, error) { return c.KubectlWith("", args...) }

// KubectlWith is Kubectl with something on its standard input.
func (c *Cluster) KubectlWith(input string, args ...string) (string, error) {
	k := exec.Command(c.Binary("kubectl"), args...)
	// kubectl must not read the user's own settings.
	k.Env = []string{"HOME=" + c.Dir, "PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + c.Kubeconfig(Admin), "KUBERC=off"}
	k.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	k.Stdout, k.Stderr = &stdout, &stderr
	if err := k.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, &stderr)
	}
	return stdout.String(), nil
}
