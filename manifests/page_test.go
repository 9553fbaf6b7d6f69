package manifests_test

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

const webServers = "../docs/web-servers.md"

// block is the only text on the page that matches the expression's group.
func block(t *testing.T, expression string) string {
	t.Helper()
	found := regexp.MustCompile(expression).FindAllStringSubmatch(string(read(t, webServers)), -1)
	if len(found) != 1 {
		t.Fatalf("%s occurs %d times; want 1", expression, len(found))
	}
	return found[0][1]
}

func pageGroup(t *testing.T) v1alpha1.VmGroup {
	t.Helper()
	return valid(t, []byte(block(t, "(?s)```yaml\n(.*?)```")))
}

func pageUserData(t *testing.T) string {
	t.Helper()
	return block(t, `(?s)cat > user-data.yaml <<'END'\n(.*?)END\n`)
}

func TestThePageOfTheWebServersCanBeFollowed(t *testing.T) {
	cloudConfig(t, pageUserData(t))
	group, text := pageGroup(t), string(read(t, webServers))
	ref := group.Spec.UserData.SecretKeyRef
	for _, command := range []string{
		"kubectl create secret generic " + ref.Name + " --from-file=" + v1alpha1.DefaultUserDataKey + "=user-data.yaml\n",
		"-l " + v1alpha1.LabelGroup + "=" + group.Name,
		"http://" + group.Name + "-0." + group.Name + "." + group.Namespace + ".svc",
		"govc vm.markastemplate " + group.Spec.Template + "\n",
	} {
		if !strings.Contains(text, command) {
			t.Errorf("the page doesn't say: %s", command)
		}
	}
	prepare := strict[map[string]any](t, []byte(block(t, `(?s)cat > prepare.yaml <<'END'\n(.*?)END\n`)))
	if len(prepare) != 2 {
		t.Errorf("the template is prepared with %v; want 2 of them", prepare)
	}
}

func TestTheHookRequestOfTheWebServersHasThePagesGroup(t *testing.T) {
	request := strict[hookRequest](t, read(t, "samples/hooks/web-servers.json"))
	sent, group := valid(t, request.Parent), pageGroup(t)
	group.Spec.Template = sent.Spec.Template
	if sent.Name != group.Name || sent.Namespace != group.Namespace || sent.UID == "" || !reflect.DeepEqual(sent.Spec, group.Spec) {
		t.Errorf("the request has %+v, the page %+v", sent.Spec, group.Spec)
	}
	ref := group.Spec.UserData.SecretKeyRef
	raw, err := json.Marshal(request.Related["Secret.v1"][group.Namespace+"/"+ref.Name])
	must.Succeed(t, err)
	secret := strict[corev1.Secret](t, raw)
	if got := string(secret.Data[v1alpha1.DefaultUserDataKey]); got != pageUserData(t) {
		t.Errorf("the Secret contains %q; want %q", got, pageUserData(t))
	}
	for _, name := range []string{"sync", "finalize"} {
		other := strict[hookRequest](t, read(t, "samples/hooks/"+name+".json"))
		if uid := strict[v1alpha1.VmGroup](t, other.Parent).UID; uid == sent.UID {
			t.Errorf("%s.json has the same UID", name)
		}
	}
}
