package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Each case is a mistake of a user, with the message that the user reads, and the exit status.
func TestWhatUsersMistypeIsSaidInTheirTerms(t *testing.T) {
	t.Parallel()
	const number = "metadata: {name: web, labels: {a: 1}, annotations: {b: true}}\n"
	const kind = "apiVersion: vm.codeconnect.vmworld.com/v1alpha1\nkind: VmGroup\n"
	const spec = "spec: {cpu: 2, memory: 4, template: vm-operator-template"
	account := []string{"VC_USER=u", "VC_PASS=p", "VC_INSECURE=true"}
	for name, c := range map[string]struct {
		env    []string
		args   string
		in     string
		status int
		want   []string
	}{
		"a tab":                            {nil, "plan -f - --simulator", kind + "metadata:\n\tname: web\n", 1, []string{"line 4: found character that cannot start any token (the line begins with a tab: indent with spaces)"}},
		"a line of the second document":    {nil, "plan -f - --simulator", "kind: Namespace\napiVersion: v1\nmetadata: {name: a}\n---\n" + kind + "metadata: {name: [}\n", 1, []string{"document 2: yaml: line 6: "}},
		"UTF-16":                           {nil, "plan -f - --simulator", "\xff\xfek\x00", 1, []string{"it is in UTF-16, as Windows PowerShell writes it: save it in UTF-8"}},
		"aliases without end":              {nil, "plan -f - --simulator", kind + "metadata: {name: web, annotations: {a: &a {b: *a}}}\n", 1, []string{"it is larger than 3 MiB, with what its aliases (*name) stand for: give fewer objects at once"}},
		"many aliases of a large text":     {nil, "plan -f - --simulator", kind + "metadata: {name: web, annotations: {a: &a \"" + strings.Repeat("x", 1<<20) + "\", b: *a, c: *a, d: *a}}\n", 1, []string{"document 1: it is larger than 3 MiB"}},
		"a large document":                 {nil, "plan -f - --simulator", kind + "metadata: {name: web} #" + strings.Repeat("x", 3<<20) + "\n", 1, []string{"document 1: it is larger than 3 MiB"}},
		"many documents":                   {nil, "plan -f - --simulator", strings.Repeat("---\n#\n", 10_002), 1, []string{"has more than 10000 documents: give fewer at once"}},
		"many groups":                      {nil, "plan -f - --simulator", strings.Repeat(kind+"metadata: {name: web}\n---\n", 5_001), 1, []string{"more than 5000 groups: give fewer at once"}},
		"another case of the kind":         {nil, "plan -f - --simulator", strings.Replace(kind, "VmGroup", "VMGroup", 1) + "metadata: {name: web}\n" + spec + "}\n", 1, []string{`found a "VMGroup" of "vm.codeconnect.vmworld.com/v1alpha1", not a VmGroup of vm.codeconnect.vmworld.com/v1alpha1: correct kind`}},
		"a bad name":                       {nil, "plan -f - --simulator", kind + "metadata: {name: Web_1}\n" + spec + "}\n", 1, []string{"is new:\nmetadata.name: Invalid value: \"Web_1\"", "(docs/troubleshooting.md#invalidspec)\nblocked (InvalidSpec)"}},
		"a name that is a path":            {nil, "plan -f - --simulator", kind + "metadata: {name: a/b}\n" + spec + "}\n", 1, []string{"metadata.name: Invalid value: \"a/b\""}},
		"a word of another tool":           {nil, "plan -f - --simulator", kind + "metadata: {name: web}\n" + spec + ", placement: {cluster: C1}, numCPUs: 2}\n", 1, []string{`unknown field "spec.placement.cluster": name the cluster in pool`, `unknown field "spec.numCPUs": it is called cpu`}},
		"a field that is like none":        {nil, "plan -f - --simulator", kind + "metadata: {name: web}\n" + spec + ", readiness: {zzz: 1}}\n", 1, []string{`unknown field "spec.readiness.zzz": spec.readiness has the fields check, `}},
		"a demo for others":                {nil, "demo --listen 0.0.0.0:0", "", 2, []string{"--listen 0.0.0.0:0: others can reach it, and the demo has no protection: use a loopback address"}},
		"a shell without completion":       {nil, "completion tcsh", "", 2, []string{`unknown command "tcsh": did you mean bash?`}},
		"an argument of serve":             {nil, "serve extra", "", 2, []string{`vmgroup serve takes no argument, and got "extra"`}},
		"an argument of version":           {nil, "version extra", "", 2, []string{`vmgroup version takes no argument`}},
		"two groups for status":            {nil, "status shop/a shop/b", "", 2, []string{`vmgroup status takes one group, and got ["shop/a" "shop/b"]`}},
		"help of a wrong command":          {nil, "srve --help", "", 2, []string{`unknown command "srve": did you mean serve?`}},
		"help about a wrong command":       {nil, "help nope", "", 2, []string{`unknown command "nope"`}},
		"help about a command":             {nil, "help serve", "", 0, []string{"--listen"}},
		"help":                             {nil, "--help", "", 0, []string{"Available Commands"}},
		"help of help":                     {nil, "help --help", "", 0, []string{"Help about any command"}},
		"a number in letters":              {nil, "serve --slots abc", "", 2, []string{`--slots "abc": must be a whole number (vmgroup serve --help`}},
		"a number in letters, by variable": {[]string{"VMGROUP_SLOTS=abc"}, "serve", "", 2, []string{`VMGROUP_SLOTS: --slots "abc": must be a whole number`}},
		"a duration without a unit":        {nil, "serve --resync 30", "", 2, []string{`--resync "30": must be a duration, such as 30s or 5m`}},
		"British spelling":                 {[]string{"VC_DATACENTRE=DC1"}, "check --simulator", "", 2, []string{"no flag has the environment variable VC_DATACENTRE: did you mean VC_DATACENTER?"}},
		"labels that are no strings": {nil, "plan -f - --simulator", kind + number + spec + "}\n", 1,
			[]string{"metadata.annotations[b]: true is invalid: use a string (put it in quotation marks)", "metadata.labels[a]: 1 is invalid: use a string"}},
		"labels of a ConfigMap that are no strings": {nil, "plan -f - --simulator", "apiVersion: v1\nkind: ConfigMap\n" + number, 1, []string{"metadata.labels[a]: 1 is invalid"}},
		"a text in the second window":               {nil, "plan -f - --simulator", kind + "metadata: {name: web}\n" + spec + `, update: {windows: [{start: "0 22 * * *", durationSeconds: 60}, {start: "0 22 * * *", durationSeconds: 1h}]}}` + "\n", 1, []string{`spec.update.windows[1].durationSeconds: "1h" is invalid: use a whole number`}},
		"a share that is none":                      {nil, "plan -f - --simulator", kind + "metadata: {name: web}\n" + spec + ", update: {maxSurge: true}}\n", 1, []string{`spec.update.maxSurge: true is invalid: use a whole number or a percentage`}},
		"a time that is none":                       {nil, "plan -f - --simulator", kind + "metadata: {name: web, creationTimestamp: today}\n" + spec + "}\n", 1, []string{`metadata.creationTimestamp: "today" is invalid: use a time`}},
		"a Helm template":                           {nil, "plan -f - --simulator", kind + "metadata:\n  name: {{ .Release.Name }}\n" + spec + "}\n", 1, []string{"if this is a Helm template, render it first: helm template"}},
		"not an object":                             {nil, "plan -f - --simulator", "hello\n", 1, []string{"not a Kubernetes object: it needs fields such as apiVersion and kind"}},
		"another namespace":                         {nil, "plan -f - --simulator -n prod", head + "}\n", 1, []string{`its namespace "shop" is not the "prod" of --namespace`}},
		"the same namespace":                        {nil, "plan -f - --simulator -n shop", head + "}\n", 2, []string{"shop/web is new"}},
		"no such group to delete":                   {nil, "plan -f - --simulator --delete", head + "}\n", 0, []string{"the group doesn't exist, so there is nothing to delete", "Plan: 0 to create, 0 to change, 0 to remove"}},
		"a blocked group":                           {nil, "plan -f - --simulator", strings.ReplaceAll(head, "template: vm-operator-template", "networks: [{network: nope}], template: vm-operator-template") + "}\n", 1, []string{"Plan: blocked: shop/web; otherwise 2 to create, 0 to change, 0 to remove"}},
		"a server and a vCenter":                    {nil, "plan -f - --simulator --server http://127.0.0.1:1", head + "}\n", 1, []string{"--server asks a running server, and --host or --simulator connect to a vCenter: set only one of them"}},
		"a vCenter, where a server is":              {[]string{"VMGROUP_LISTEN=127.0.0.1:1"}, "plan -f - --simulator", head + "}\n", 2, []string{"shop/web is new"}},
		"a server that is here":                     {[]string{"VMGROUP_LISTEN=127.0.0.1:1"}, "plan -f -", head + "}\n", 1, []string{"no server answers at http://127.0.0.1:1"}},
		"a vCenter with a newline":                  {append([]string{"VC_HOST=127.0.0.1:1\n"}, account...), "check", "", 1, []string{"127.0.0.1"}},
		"a vCenter with a space":                    {append([]string{"VC_HOST=vc exa"}, account...), "check", "", 2, []string{`--host (VC_HOST): remove the character " "`}},
		"a vCenter by its IPv6 address":             {append([]string{"VC_HOST=::1"}, account...), "check", "", 1, []string{"::1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := vmgroup(c.env, strings.Fields(c.args)...)
			command.Stdin = strings.NewReader(c.in)
			out, errs, status := run(t, command)
			for _, want := range c.want {
				if !strings.Contains(out+errs, want) {
					t.Errorf("the command does not say %q", want)
				}
			}
			if status != c.status || t.Failed() {
				t.Errorf("vmgroup ended with the exit status %d, want %d: %s%s", status, c.status, out, errs)
			}
		})
	}
}

// The error of a failed connection names the flag that helps.
func TestPlanSaysWhichFlagHelpsToReachAServer(t *testing.T) {
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{})
	k := newKeys(t)
	secure := serve(t, against(vc), "--tls-cert-file", k.path("tls.crt"), "--tls-private-key-file", k.path("tls.key"))
	plain := serve(t, against(vc))
	at := func(p *process, scheme string) string { return scheme + p.url[strings.Index(p.url, "://"):] }
	for _, c := range []struct{ server, name, want string }{
		{at(secure, "http"), "", "serves HTTPS: correct --server to https://"},
		{at(plain, "https"), "", "serves plain HTTP: correct --server to http://"},
		{at(secure, "https"), "", "its certificate is for vmgroup.vmgroup-system.svc: name one of them with --tls-server-name"},
		{at(secure, "https"), "vmgroup.vmgroup-system.svc", "--server-ca-file"},
	} {
		args := []string{"--server", c.server, "--tls-server-name", c.name}
		if out, errs, status := preview(t, nil, head+"}\n", args...); status != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit status %d, want %q: %s%s", args, status, c.want, out, errs)
		}
	}
}

func TestAPlanThatLooksAtVCenterSaysThatATemplateIsAVM(t *testing.T) {
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{})
	manifest := strings.ReplaceAll(head, "template: vm-operator-template", "template: web-server") + "}\n"
	if _, err := vc.AddVM("/DC0/vm", "web-server"); err != nil {
		t.Fatal(err)
	}
	if out, errs, status := preview(t, against(vc), manifest); status != 1 || !strings.Contains(out, "/DC0/vm/web-server is a VM: convert it to a template, or name another") {
		t.Errorf("vmgroup ended with the exit status %d: %s%s; want 1 and %q in the text", status, out, errs, "/DC0/vm/web-server is a VM: convert it to a template, or name another")
	}
	p := serveReady(t, against(vc)) // a server reveals nothing about other VMs to its callers
	if out, errs, status := preview(t, nil, manifest, "--server", p.url); status != 1 || strings.Contains(out+errs, "is a VM") {
		t.Errorf("vmgroup ended with the exit status %d: %s%s", status, out, errs)
	}
}

func TestADemoThatIsNoTerminalSaysWhereItIs(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "group.yaml")
	must.Succeed(t, os.WriteFile(file, []byte(head+"}\n"), 0o600))
	var out strings.Builder
	d := &demo{url: "http://127.0.0.1:8080", manifests: manifests{files: []string{file}}}
	v := newDemoView(&out)
	v.show(d)
	v.show(d)
	if text := out.String(); strings.Count(text, "In a browser: http://127.0.0.1:8080") != 1 || strings.Count(text, "Edit "+file+" and save it") != 1 {
		t.Errorf("the demo does not say once where it serves and which file to edit:\n%s", text)
	}
}
