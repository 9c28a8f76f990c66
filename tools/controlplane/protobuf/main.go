// Prints how the built-in kinds are written in protocol buffers and in JSON: `crates/api/src/protobuf/schema.txt`.
//
// A line of a type is a field: its number, its JSON name, and its shape. The name is followed by `?` if Go omits the field
// when it is empty, and by `!` if Go omits it when it is zero; `~` is a message whose fields are inlined. Shapes begin with
// `*` for a pointer, `[]` for a list, `{}` for a map by string, and `items:` for a list that is a message of its own. The
// order is that of Go's JSON.
package main

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

var scalars = map[reflect.Type]string{
	reflect.TypeOf(metav1.Time{}):                                "time",
	reflect.TypeOf(metav1.MicroTime{}):                           "microtime",
	reflect.TypeOf(metav1.Duration{}):                            "duration",
	reflect.TypeOf(resource.Quantity{}):                          "quantity",
	reflect.TypeOf(intstr.IntOrString{}):                         "intstr",
	reflect.TypeOf(runtime.RawExtension{}):                       "raw",
	reflect.TypeOf(metav1.FieldsV1{}):                            "raw",
	reflect.TypeOf(apiextensions.JSON{}):                         "raw",
}

var done = map[reflect.Type]bool{}
var todo []reflect.Type

func modelName(t reflect.Type) string {
	if m, ok := reflect.New(t).Interface().(interface{ OpenAPIModelName() string }); ok {
		return m.OpenAPIModelName()
	}
	return t.PkgPath() + "." + t.Name()
}

// The shape of one value on the wire.
func shape(t reflect.Type, tag string) string {
	if s, ok := scalars[t]; ok {
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + shape(t.Elem(), tag)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		if t.Name() != "" && t.PkgPath() != "" && !strings.Contains(tag, ",rep") {
			return "items:" + shape(t.Elem(), tag) // a named list is a message of its own
		}
		return "[]" + shape(t.Elem(), tag)
	case reflect.Map:
		e := t.Elem()
		if e.Kind() == reflect.Slice && e.Name() != "" && e.Elem().Kind() != reflect.Uint8 {
			return "{}items:" + shape(e.Elem(), "")
		}
		return "{}" + shape(e, "")
	case reflect.Struct:
		if !done[t] {
			done[t] = true
			todo = append(todo, t)
		}
		return modelName(t)
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Float64, reflect.Float32:
		return "float"
	default:
		return "int"
	}
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	enabled := map[string]bool{}
	for _, gv := range os.Args[1:] {
		enabled[gv] = true
	}
	s := scheme.Scheme
	apiregistration.AddToScheme(s)
	metav1.AddMetaToScheme(s)
	var roots []string
	for gvk, t := range s.AllKnownTypes() {
		if !enabled[gvk.GroupVersion().String()] || gvk.Kind == "WatchEvent" || (strings.HasSuffix(gvk.Kind, "List")) {
			continue
		}
		if strings.HasSuffix(gvk.Kind, "Options") && gvk.Kind != "DeleteOptions" {
			continue
		}
		roots = append(roots, fmt.Sprintf("kind %s %s %s", gvk.GroupVersion(), gvk.Kind, shape(t, "")))
	}
	sort.Strings(roots)
	for _, r := range roots {
		fmt.Fprintln(out, r)
	}
	types := map[string]reflect.Type{}
	for len(todo) > 0 {
		t := todo[0]
		todo = todo[1:]
		types[modelName(t)] = t
		for i := 0; i < t.NumField(); i++ {
			shape(t.Field(i).Type, t.Field(i).Tag.Get("protobuf"))
		}
	}
	names := make([]string, 0, len(types))
	for n := range types {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		t := types[n]
		fmt.Fprintln(out, "type "+n)
		for i := 0; i < t.NumField(); i++ {
			f := t.Field(i)
			tag := f.Tag.Get("protobuf")
			if tag == "" || tag == "-" {
				continue
			}
			json := strings.Split(f.Tag.Get("json"), ",")
			name, flags := json[0], ""
			for _, o := range json[1:] {
				switch o {
				case "inline":
					name = ""
				case "omitempty":
					flags += "?"
				case "omitzero":
					flags += "!"
				}
			}
			if name == "" {
				name, flags = "~", ""
			}
			fmt.Fprintf(out, "\t%s %s%s %s\n", strings.Split(tag, ",")[1], name, flags, shape(f.Type, tag))
		}
	}
	out.Flush()
}
