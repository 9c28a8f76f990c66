"""A small AWS for the tests of crates/aws: moto's server on a loopback port, with a VPC, machines and keys.

The first line on stdout is the world as JSON. Then each line on stdin is a call of boto3, as
{"client": "ec2", "call": "describe_vpcs", "with": {}}, and is answered by a line with its result or its error.
The process ends when stdin does.
"""

import json
import logging
import sys

import boto3
from moto import settings
from moto.server import ThreadedMotoServer

REGION = "eu-central-1"
CLUSTER = "kubernetes.io/cluster/test"


def connect(endpoint, key):
    def client(name):
        return boto3.client(
            name,
            region_name=REGION,
            endpoint_url=endpoint,
            aws_access_key_id=key["AccessKeyId"],
            aws_secret_access_key=key["SecretAccessKey"],
        )

    return {name: client(name) for name in ("ec2", "elbv2", "iam")}


def tags(kind, *names):
    return [{"ResourceType": kind, "Tags": [{"Key": name, "Value": "owned"} for name in names]}]


def network(ec2):
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = []
    # The last one is in the zone of the first.
    for number, zone in enumerate("aba"):
        subnet = ec2.create_subnet(
            VpcId=vpc,
            CidrBlock=f"10.0.{16 * number}.0/20",
            AvailabilityZone=REGION + zone,
            TagSpecifications=tags("subnet", "kubernetes.io/role/elb"),
        )
        subnets.append(subnet["Subnet"]["SubnetId"])
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    table = ec2.create_route_table(VpcId=vpc, TagSpecifications=tags("route-table", CLUSTER))
    return {
        "vpc": vpc,
        "subnets": subnets,
        "gateway": gateway,
        "table": table["RouteTable"]["RouteTableId"],
    }


def machines(ec2, subnet, count):
    """One reservation each: pages count reservations."""
    made = []
    for _ in range(count):
        answer = ec2.run_instances(
            ImageId="ami-12c6146b", InstanceType="t3.large", SubnetId=subnet, MinCount=1, MaxCount=1
        )
        machine = answer["Instances"][0]
        made.append({"id": machine["InstanceId"], "name": machine["PrivateDnsName"]})
    return made


def keys(iam):
    """A user and a role that may do everything."""
    everything = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
    }
    policy = iam.create_policy(PolicyName="all", PolicyDocument=json.dumps(everything))["Policy"]["Arn"]
    iam.create_user(UserName="flyball")
    iam.attach_user_policy(UserName="flyball", PolicyArn=policy)
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRoleWithWebIdentity"}
        ],
    }
    role = iam.create_role(RoleName="flyball", AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
    iam.attach_role_policy(RoleName="flyball", PolicyArn=policy)
    key = iam.create_access_key(UserName="flyball")["AccessKey"]
    return {"AccessKeyId": key["AccessKeyId"], "SecretAccessKey": key["SecretAccessKey"]}, role


def answer(clients, line):
    question = json.loads(line)
    if question["call"] == "check_signatures":
        # From now on moto computes every signature again, with botocore.
        settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
        return {}
    try:
        return getattr(clients[question["client"]], question["call"])(**question["with"])
    except Exception as error:
        return {"error": str(error)}


def main():
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    clients = connect(endpoint, {"AccessKeyId": "first", "SecretAccessKey": "first"})
    ec2 = clients["ec2"]
    world = {"endpoint": endpoint, **network(ec2)}
    world["running"] = machines(ec2, world["subnets"][0], int(sys.argv[1]))
    [world["stopped"]] = machines(ec2, world["subnets"][0], 1)
    [world["terminated"]] = machines(ec2, world["subnets"][0], 1)
    ec2.stop_instances(InstanceIds=[world["stopped"]["id"]])
    ec2.terminate_instances(InstanceIds=[world["terminated"]["id"]])
    world["key"], world["role"] = keys(clients["iam"])
    clients = connect(endpoint, world["key"])
    print(json.dumps(world), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(clients, line), default=str), flush=True)
    server.stop()


main()
