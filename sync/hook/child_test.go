package hook_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

func TestAnAnswerHasTheMembersAndWholeObjectsAsChildren(t *testing.T) {
	t.Parallel()
	body := created(t)
	body = bytes.Replace(body, []byte(`"replicas":2`), []byte(`"replicas":1,"service":{"ports":[{"port":22}],"annotations":{"example.com/for":"<you & me>"}}`), 1)
	body = bytes.Replace(body, []byte(`"Service.v1":{}`), []byte(`"Service.v1":{"default/web":{"metadata":{"name":"web"}}}`), 1) // the server creates slices once it sees the Service
	var answer struct {
		Status             struct{ Members []struct{ Name, Host string } }
		Children           []json.RawMessage
		ResyncAfterSeconds float64
	}
	must.Succeed(t, json.Unmarshal(post(serve(&controller{state: healthy()}), "/sync", body).Body.Bytes(), &answer))
	if s := answer.Status; len(s.Members) != 1 || s.Members[0].Name != "web-0" || s.Members[0].Host != "host-1" || answer.ResyncAfterSeconds <= 0 {
		t.Errorf("status %+v, and the next call in %v s", s, answer.ResyncAfterSeconds)
	}
	want := []string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web-members","namespace":"default","labels":{"app.kubernetes.io/managed-by":"vmgroup","vm.codeconnect.vmworld.com/group":"web"}},` +
			`"data":{"inventory.yaml":"\"web\":\n  hosts:\n    \"web-0\": {ansible_host: \"10.0.0.7\", vmgroup_ordinal: 0, vmgroup_ready: true}\n",` +
			`"members.json":"[\n {\"name\":\"web-0\",\"ordinal\":0,\"powerState\":\"poweredOn\",\"ips\":[\"10.0.0.7\"],\"ready\":true}\n]\n"}}`,
		`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":"default","labels":{"app.kubernetes.io/managed-by":"vmgroup","vm.codeconnect.vmworld.com/group":"web"},` +
			`"annotations":{"example.com/for":"\u003cyou \u0026 me\u003e"}},"spec":{"type":"ClusterIP","clusterIP":"None","ports":[{"port":22,"targetPort":22,"protocol":"TCP"}]}}`,
		`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"web-ipv4-0","namespace":"default","labels":{"app.kubernetes.io/managed-by":"vmgroup",` +
			`"endpointslice.kubernetes.io/managed-by":"vmgroup.vm.codeconnect.vmworld.com","kubernetes.io/service-name":"web","service.kubernetes.io/headless":"","vm.codeconnect.vmworld.com/group":"web"}},` +
			`"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.7"],"conditions":{"ready":true,"serving":true,"terminating":false},"hostname":"web-0"}],"ports":[{"port":22,"protocol":"TCP"}]}`,
	}
	if len(answer.Children) != len(want) {
		t.Fatalf("%d children: %s; want %d", len(answer.Children), answer.Children, len(want))
	}
	for i := range want {
		if string(answer.Children[i]) != want[i] {
			t.Errorf("child %d is\n%s\nwant\n%s", i, answer.Children[i], want[i])
		}
	}
}

func TestAnEventIsWholeAndGoesWithTheOtherChildren(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 5, 6, 7, 0, time.UTC)
	event := plan.EventOf(plan.Ref{Namespace: "default", Name: "web", UID: "u-1"}, []plan.Event{{Warning: true, Reason: "MemberGone",
		What: "Gone from vCenter:", Member: "web-0 (vm-7)", Key: "gone/vm-7", At: at}})
	body := created(t)
	var answer struct{ Children []json.RawMessage }
	must.Succeed(t, json.Unmarshal(post(serve(&controller{state: healthy(), more: []plan.Child{event}}), "/sync", body).Body.Bytes(), &answer))
	want := `{"apiVersion":"v1","kind":"Event","metadata":{"name":"` + event.Key.Name + `","namespace":"default"},` +
		`"involvedObject":{"apiVersion":"vm.codeconnect.vmworld.com/v1alpha1","kind":"VmGroup","namespace":"default","name":"web","uid":"u-1"},` +
		`"reason":"MemberGone","message":"Gone from vCenter: web-0 (vm-7)","type":"Warning","source":{"component":"vmgroup"},` +
		`"firstTimestamp":"2026-11-22T05:06:07Z","lastTimestamp":"2026-11-22T05:06:07Z","count":1,"reportingComponent":"vmgroup"}`
	if n := len(answer.Children); n != 2 || string(answer.Children[n-1]) != want {
		t.Errorf("the children are\n%s\nnot\n%s", answer.Children, want)
	}
}
