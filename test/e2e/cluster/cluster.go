package cluster

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
)

// User is a user that the API server knows.
type User string

// The users.
const (
	// Admin can do everything.
	Admin User = "admin"
	// Metacontroller is the service account that gets the rights of manifests/components/metacontroller-rights.
	Metacontroller User = "system:serviceaccount:metacontroller:metacontroller"
	// controllers is kube-controller-manager.
	controllers User = "system:kube-controller-manager"
)

// Cluster is a control plane.
type Cluster struct {
	// Dir is its directory: data, certificates, logs.
	Dir string

	bin      string
	tokens   map[User]string
	etcd     *Process
	api      *Process
	manager  *Process
	etcdArgs []string
	etcdURL  string
	apiArgs  []string
	apiPort  int
}

// New starts etcd and kube-apiserver from the binaries in bin. Their files go into dir, which must exist.
func New(bin, dir string) (*Cluster, error) { return from("", bin, dir) }

// From starts another cluster from a backup of etcd, with files in dir, which must exist.
func (c *Cluster) From(backup, dir string) (*Cluster, error) { return from(backup, c.bin, dir) }

func from(backup, bin, dir string) (c *Cluster, err error) {
	c = &Cluster{Dir: dir, bin: bin, tokens: map[User]string{Admin: rand.Text(), Metacontroller: rand.Text(), controllers: rand.Text()}}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	ports, err := FreePorts(3)
	if err != nil {
		return nil, err
	}
	if err := c.writeFiles(); err != nil {
		return nil, err
	}
	if backup != "" {
		if err := os.CopyFS(c.data(), os.DirFS(backup)); err != nil {
			return nil, err
		}
	}
	c.etcdURL = local("http", ports[0])
	c.etcdArgs = []string{"-data-dir", c.data(), "-listen-client", c.etcdURL, "-listen-peer", local("http", ports[1])}
	if err := c.startEtcd(); err != nil {
		return nil, err
	}
	c.apiPort = ports[2]
	c.apiArgs = []string{
		"--etcd-servers=" + c.etcdURL, "--endpoint-reconciler-type=none",
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.apiPort),
		"--cert-dir=" + dir, // kube-apiserver creates its own certificate there
		"--service-account-key-file=" + c.file("accounts.key"), "--service-account-signing-key-file=" + c.file("accounts.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local", "--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=RBAC", "--token-auth-file=" + c.file("tokens.csv"),
		"--audit-policy-file=" + c.file("audit.yaml"), "--audit-log-path=" + c.auditLog(),
	}
	return c, c.StartAPIServer()
}

func (c *Cluster) data() string { return c.file("data") }

func (c *Cluster) startEtcd() (err error) {
	if c.etcd, err = StartApart(c.Dir, "etcd", c.Binary("etcd"), c.etcdArgs...); err != nil {
		return err
	}
	return c.etcd.Await(func() error { return get(http.DefaultClient, c.etcdURL+"/health", "") })
}

// Backup copies etcd's data into a new directory, while neither etcd nor kube-apiserver runs.
func (c *Cluster) Backup(to string) error {
	return c.withoutEtcd(func() error { return os.CopyFS(to, os.DirFS(c.data())) })
}

// Restore replaces etcd's data by a backup.
func (c *Cluster) Restore(backup string) error {
	return c.withoutEtcd(func() error {
		if err := os.RemoveAll(c.data()); err != nil {
			return err
		}
		return os.CopyFS(c.data(), os.DirFS(backup))
	})
}

func (c *Cluster) withoutEtcd(change func() error) error {
	c.KillAPIServer()
	if err := c.etcd.Stop(); err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	if err := c.startEtcd(); err != nil {
		return err
	}
	return c.StartAPIServer()
}

func local(scheme string, port int) string { return fmt.Sprintf("%s://127.0.0.1:%d", scheme, port) }

// Binary is the path of a program of Kubernetes.
func (c *Cluster) Binary(name string) string { return filepath.Join(c.bin, name) }

func (c *Cluster) file(name string) string { return filepath.Join(c.Dir, name) }

// writeFiles writes what kube-apiserver reads.
func (c *Cluster) writeFiles() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	groups := map[User]string{Admin: "system:masters", Metacontroller: "system:serviceaccounts", controllers: ""}
	tokens := ""
	for user, token := range c.tokens {
		tokens += fmt.Sprintf("%s,%s,%s,%q\n", token, user, user, groups[user])
	}
	for name, content := range map[string][]byte{
		"accounts.key": pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
		"tokens.csv":   []byte(tokens),
		"audit.yaml":   []byte(auditPolicy),
	} {
		if err := os.WriteFile(c.file(name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// StartAPIServer starts kube-apiserver, which must not run yet, and waits until it is ready.
func (c *Cluster) StartAPIServer() (err error) {
	if c.api, err = StartApart(c.Dir, "kube-apiserver", c.Binary("kube-apiserver"), c.apiArgs...); err != nil {
		return err
	}
	if err := c.api.Await(func() error {
		client, err := c.client()
		if err != nil {
			return err
		}
		return get(client, local("https", c.apiPort)+"/readyz", c.tokens[Admin])
	}); err != nil {
		return err
	}
	for user := range c.tokens {
		if err := os.WriteFile(c.Kubeconfig(user), c.kubeconfig(user), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// KillAPIServer ends kube-apiserver at once: with SIGTERM, it waits a minute or two for its watchers. etcd keeps the data.
func (c *Cluster) KillAPIServer() { c.api.Kill() }

// StartControllers starts those controllers of kube-controller-manager that handle namespaces, owners, endpoints, quotas and
// aggregated roles.
func (c *Cluster) StartControllers() error {
	return c.startControllers("namespace-controller,garbage-collector-controller,serviceaccount-controller,endpoints-controller,endpointslice-controller,endpointslice-mirroring-controller,"+
		"resourcequota-controller,clusterrole-aggregation-controller", "--resource-quota-sync-period=2s")
}

// StopControllers ends kube-controller-manager.
func (c *Cluster) StopControllers() { c.manager.Kill() }

// StartAutoscaler starts only the controller of HorizontalPodAutoscalers, which runs every second.
func (c *Cluster) StartAutoscaler() error {
	return c.startControllers("horizontal-pod-autoscaler-controller,serviceaccount-token-controller", "--horizontal-pod-autoscaler-sync-period=1s")
}

func (c *Cluster) startControllers(names string, more ...string) error {
	ports, err := FreePorts(1)
	if err != nil {
		return err
	}
	c.manager, err = StartApart(c.Dir, "kube-controller-manager", c.Binary("kube-controller-manager"), append(more,
		"--kubeconfig="+c.Kubeconfig(Admin), "--cert-dir="+c.Dir, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[0]),
		"--leader-elect=false", "--use-service-account-credentials=true", "--service-account-private-key-file="+c.file("accounts.key"),
		"--controllers="+names, "--kube-api-qps=100", "--kube-api-burst=200")...)
	if err != nil {
		return err
	}
	insecure := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // the client reads only the API server's health
	return c.manager.Await(func() error { return get(insecure, local("https", ports[0])+"/healthz", "") })
}

// Close ends all processes.
func (c *Cluster) Close() {
	for _, p := range []*Process{c.manager, c.api, c.etcd} {
		if p != nil {
			p.Kill()
		}
	}
}

// Busy is the processor time that etcd and kube-apiserver have taken.
func (c *Cluster) Busy() time.Duration { return c.etcd.Busy() + c.api.Busy() }

// Kubeconfig is the file with which a user reaches the API server.
func (c *Cluster) Kubeconfig(user User) string {
	return c.file(map[User]string{Admin: "admin", Metacontroller: "metacontroller", controllers: "controllers"}[user] + ".kubeconfig")
}

func (c *Cluster) kubeconfig(user User) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: e2e
clusters: [{name: e2e, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: user, user: {token: %q}}]
contexts: [{name: e2e, context: {cluster: e2e, user: user, namespace: default}}]
`, local("https", c.apiPort), c.file("apiserver.crt"), c.tokens[user])
}

// RESTConfig configures a client of a user.
func (c *Cluster) RESTConfig(user User) *rest.Config {
	return &rest.Config{Host: local("https", c.apiPort), BearerToken: c.tokens[user], QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.file("apiserver.crt")}}
}

// client trusts the certificate that kube-apiserver created for itself.
func (c *Cluster) client() (*http.Client, error) {
	pool := x509.NewCertPool()
	certificate, err := os.ReadFile(c.file("apiserver.crt"))
	if err != nil {
		return nil, err
	}
	pool.AppendCertsFromPEM(certificate)
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}, nil
}

func get(client *http.Client, url, token string) error {
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	defer response.Body.Close() //nolint:errcheck // the body was only read
	if text, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s %s", url, response.Status, text)
	}
	return nil
}
